/* Attention (paper 3.2.1) of single queries to lists of rows, as decoding and encoding without padding need it.

The result of a query depends only on the query, its rows and their order, not on the other queries or the number
of threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "vector.h"

#define AHEAD 2 /* number of keys to prefetch */
#define TILE 32 /* number of values that the queries of a group read together */
#define MOST_VECTORS (REGISTERS / 2) /* of columns that are summed together, in registers */

INLINE float dot(const float *left, const float *right, int width) {
    vec sum = splat(0);
    for (int i = 0; i < width; i += LANES)
        sum = multiply_add(load_first(left + i, width - i, 0), load_first(right + i, width - i, 0), sum);
    return sum_of(sum);
}

/* The dot products of four pairs of vectors, `width` apart on both sides. */
INLINE void four_dots(const float *left, const float *right, int width, float dots[4]) {
    vec sums[4] = {splat(0), splat(0), splat(0), splat(0)};
    for (int i = 0; i < width; i += LANES)
        for (int j = 0; j < 4; j++)
            sums[j] = multiply_add(
                load_first(left + j * width + i, width - i, 0), load_first(right + j * width + i, width - i, 0),
                sums[j]);
    four_sums(sums, dots);
}

/* Scaled products of a query with a key, head by head; the scores of successive heads are `stride` apart. */
INLINE void score(
    const float *query, const float *key, int heads, int width, float scale, float *scores, int64_t stride) {
    int head = 0;
    for (; head + 4 <= heads; head += 4) {
        float four[4];
        four_dots(query + head * width, key + head * width, width, four);
        for (int j = 0; j < 4; j++)
            scores[(head + j) * stride] = scale * four[j];
    }
    for (; head < heads; head++)
        scores[head * stride] = scale * dot(query + head * width, key + head * width, width);
}

/* Turns scores into weights that sum to one (softmax). */
INLINE void normalise(float *scores, int count) {
    vec most = splat(-INFINITY), sum = splat(0);
    for (int i = 0; i < count; i += LANES)
        most = larger(most, load_first(scores + i, count - i, -INFINITY));
    float largest = largest_of(most);
    for (int i = 0; i < count; i += LANES) {
        vec weight = exponential(load_first(scores + i, count - i, -INFINITY) - splat(largest));
        store_first(scores + i, weight, count - i);
        sum += weight;
    }
    vec factor = splat(1.0f / sum_of(sum));
    for (int i = 0; i < count; i += LANES)
        store_first(scores + i, load_first(scores + i, count - i, 0) * factor, count - i);
}

/* Adds weighted values to `out` in the order of the rows, for some vectors of columns; `weights[v]` are the weights of
the head that vector v belongs to. */
INLINE void mix_columns(
    const float *const *weights, const float *values, int64_t value_stride, const int32_t *rows, int count,
    int vectors, float *out) {
    vec sums[16];
    for (int v = 0; v < vectors; v++)
        sums[v] = load(out + v * LANES);
    for (int j = 0; j < count; j++) {
        const float *value = values + rows[j] * value_stride;
        for (int v = 0; v < vectors; v++)
            sums[v] = multiply_add(splat(weights[v][j]), load(value + v * LANES), sums[v]);
    }
    for (int v = 0; v < vectors; v++)
        store(out + v * LANES, sums[v]);
}

/* Adds weighted values to `out` for the columns of a head whose width is no multiple of a vector. */
INLINE void mix_head(
    const float *weights, const float *values, int64_t value_stride, const int32_t *rows, int count, int width,
    float *out) {
    for (int i = 0; i < width; i += LANES) {
        vec sum = load_first(out + i, width - i, 0);
        for (int j = 0; j < count; j++)
            sum = multiply_add(splat(weights[j]), load_first(values + rows[j] * value_stride + i, width - i, 0), sum);
        store_first(out + i, sum, width - i);
    }
}

/* Adds weighted values to `out` for all columns of all heads. */
static void mix(
    const float *scores, int64_t stride, const float *values, int64_t value_stride, const int32_t *rows, int count,
    int heads, int width, float *out) {
    if (width % LANES) {
        for (int head = 0; head < heads; head++)
            mix_head(
                scores + head * stride, values + head * width, value_stride, rows, count, width, out + head * width);
        return;
    }
    int column = 0;
    for (int vectors = MOST_VECTORS; vectors; vectors /= 2)
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
}

/* Prefetches a row; rows are too far apart for the processor to predict the next one. */
static inline void fetch(const float *row, int width) {
    for (int i = 0; i < width; i += 16) /* floats in a cache line */
        __builtin_prefetch(row + i);
}

/* Attention of a few queries, which read the rows together so that shared rows are in the cache. */
static void attend_group(
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

int attend(
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
