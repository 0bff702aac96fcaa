/* Attention (paper 3.2.1) of single queries to lists of rows, as decoding and encoding without padding need it.

The result of a query depends only on the query, its rows and their order, not on the other queries or the number
of threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "vector.h"

#define AHEAD 2 /* number of keys to prefetch */
#define TILE 32 /* number of values that the queries of a group read together */

VECTOR static inline float dot(const float *left, const float *right, int width) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) {
        __mmask16 some = first_lanes(width - i);
        sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(some, left + i), _mm512_maskz_loadu_ps(some, right + i), sum);
    }
    return _mm512_reduce_add_ps(sum);
}

/* The dot products of four pairs of vectors, `step` apart on both sides. */
VECTOR static inline __m128 four_dots(const float *left, const float *right, int step, int width) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int i = 0; i < width; i += LANES) {
        __mmask16 some = first_lanes(width - i);
        for (int j = 0; j < 4; j++)
            sums[j] = _mm512_fmadd_ps(
                _mm512_maskz_loadu_ps(some, left + j * step + i), _mm512_maskz_loadu_ps(some, right + j * step + i),
                sums[j]);
    }
    __m256 halves[4];
    for (int j = 0; j < 4; j++)
        halves[j] = _mm256_add_ps(_mm512_castps512_ps256(sums[j]), _mm512_extractf32x8_ps(sums[j], 1));
    __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(halves[0], halves[1]), _mm256_hadd_ps(halves[2], halves[3]));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

/* Scaled products of a query with a key, head by head; the scores of successive heads are `stride` apart. */
VECTOR static inline void score(
    const float *query, const float *key, int heads, int width, float scale, float *scores, int64_t stride) {
    int head = 0;
    for (; head + 4 <= heads; head += 4) {
        float four[4];
        _mm_storeu_ps(
            four, _mm_mul_ps(
                      _mm_set1_ps(scale), four_dots(query + head * width, key + head * width, width, width)));
        for (int j = 0; j < 4; j++)
            scores[(head + j) * stride] = four[j];
    }
    for (; head < heads; head++)
        scores[head * stride] = scale * dot(query + head * width, key + head * width, width);
}

/* Turns scores into weights that sum to one (softmax). */
VECTOR static inline void normalise(float *scores, int count) {
    __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int i = 0; i < count; i += LANES)
        most = _mm512_max_ps(most, loaded_or(scores + i, first_lanes(count - i), -INFINITY));
    __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    for (int i = 0; i < count; i += LANES) {
        __mmask16 some = first_lanes(count - i);
        __m512 weight = exponential(_mm512_sub_ps(loaded_or(scores + i, some, -INFINITY), largest));
        _mm512_mask_storeu_ps(scores + i, some, weight);
        sum = _mm512_mask_add_ps(sum, some, sum, weight);
    }
    __m512 factor = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
    for (int i = 0; i < count; i += LANES) {
        __mmask16 some = first_lanes(count - i);
        _mm512_mask_storeu_ps(scores + i, some, _mm512_mul_ps(_mm512_maskz_loadu_ps(some, scores + i), factor));
    }
}

/* Adds weighted values to `out` in the order of the rows, for `vectors` times sixteen columns; `weights[v]` are the
weights of the head that vector v belongs to. */
VECTOR static inline __attribute__((always_inline)) void mix_columns(
    const float *const *weights, const float *values, int64_t value_stride, const int32_t *rows, int count,
    int vectors, float *out) {
    __m512 sums[16];
    for (int v = 0; v < vectors; v++)
        sums[v] = _mm512_loadu_ps(out + v * LANES);
    for (int j = 0; j < count; j++) {
        const float *value = values + rows[j] * value_stride;
        for (int v = 0; v < vectors; v++)
            sums[v] = _mm512_fmadd_ps(_mm512_set1_ps(weights[v][j]), _mm512_loadu_ps(value + v * LANES), sums[v]);
    }
    for (int v = 0; v < vectors; v++)
        _mm512_storeu_ps(out + v * LANES, sums[v]);
}

/* Adds weighted values to `out` for all columns of all heads. */
VECTOR static void mix(
    const float *scores, int64_t stride, const float *values, int64_t value_stride, const int32_t *rows, int count,
    int heads, int width, float *out) {
    int column = 0;
    if (width % LANES == 0) {
        for (int vectors = 16; vectors; vectors /= 2) /* as many as fit in registers */
            for (; column + vectors * LANES <= heads * width; column += vectors * LANES) {
                const float *weights[16];
                for (int v = 0; v < vectors; v++)
                    weights[v] = scores + (column + v * LANES) / width * stride;
                const float *part = values + column;
                float *sums = out + column;
                switch (vectors) { /* constants keep the sums in registers */
                case 16: mix_columns(weights, part, value_stride, rows, count, 16, sums); break;
                case 8: mix_columns(weights, part, value_stride, rows, count, 8, sums); break;
                case 4: mix_columns(weights, part, value_stride, rows, count, 4, sums); break;
                default: mix_columns(weights, part, value_stride, rows, count, vectors, sums);
                }
            }
        return;
    }
    for (; column < heads * width; column++) {
        const float *weights = scores + column / width * stride;
        for (int j = 0; j < count; j++)
            out[column] = fmaf(weights[j], values[rows[j] * value_stride + column], out[column]);
    }
}

/* Prefetches a row; rows are too far apart for the processor to predict the next one. */
static inline void fetch(const float *row, int width) {
    for (int i = 0; i < width; i += LANES)
        _mm_prefetch((const char *)(row + i), _MM_HINT_T0);
}

/* Attention of a few queries, which read the rows together so that shared rows are in the cache. */
VECTOR static void attend_group(
    const struct attended *attended, int64_t first, int64_t end, int heads, int d_k, int d_v, const float *queries,
    int64_t query_stride, const float *keys, int64_t key_stride, const float *values, int64_t value_stride,
    float *out, float *scores, int longest) {
    float scale = 1.0f / sqrtf((float)d_k);
    int64_t of_query = (int64_t)heads * longest;
    for (int j = 0; j < longest; j++)
        for (int64_t i = first; i < end; i++)
            if (j < attended->counts[i]) {
                const int32_t *own = attended->rows + attended->starts[i];
                if (j + AHEAD < attended->counts[i])
                    fetch(keys + own[j + AHEAD] * key_stride, heads * d_k);
                score(
                    queries + i * query_stride, keys + own[j] * key_stride, heads, d_k, scale,
                    scores + (i - first) * of_query + j, longest);
            }
    for (int64_t i = first; i < end; i++)
        for (int head = 0; head < heads; head++)
            normalise(scores + (i - first) * of_query + (int64_t)head * longest, attended->counts[i]);
    memset(out + first * heads * d_v, 0, (end - first) * heads * d_v * sizeof(float));
    for (int start = 0; start < longest; start += TILE)
        for (int64_t i = first; i < end; i++) {
            int count = attended->counts[i] - start;
            mix(
                scores + (i - first) * of_query + start, longest, values, value_stride,
                attended->rows + attended->starts[i] + start, count < TILE ? count : TILE, heads, d_v,
                out + i * heads * d_v);
        }
}

VECTOR int attend(
    int64_t num_queries, int heads, int d_k, int d_v, const float *queries, int64_t query_stride, const float *keys,
    int64_t key_stride, const float *values, int64_t value_stride, const struct attended *attended, float *out,
    int threads) {
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : failed) if (threads > 1)
    for (int64_t first = 0; first < num_queries; first += attended->group) {
        int64_t end = first + attended->group < num_queries ? first + attended->group : num_queries;
        int longest = 0;
        for (int64_t i = first; i < end; i++)
            longest = attended->counts[i] > longest ? attended->counts[i] : longest;
        float *scores = malloc((size_t)(end - first) * heads * longest * sizeof(float));
        if (scores)
            attend_group(
                attended, first, end, heads, d_k, d_v, queries, query_stride, keys, key_stride, values, value_stride,
                out, scores, longest);
        else
            failed = 1;
        free(scores);
    }
    return !failed;
}
