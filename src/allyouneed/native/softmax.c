/* The softmax in training: of the loss's logits, and of attention, alone and with the products around it. */

#include <stdlib.h>

#include "forms.h"
#include "kernels.h"
#include "threads.h"
#include "vector.h"

/* Scores times a scale, and -infinity where the byte of a mask is 0, if there is one. */
INLINE vec scores_at(
    enum form form, const char *row, int64_t place, int64_t count, const uint8_t *mask, float scale) {
    vec scores = load_of(form, row, place, count, -INFINITY) * splat(scale);
    if (!mask)
        return scores;
    const bytes opened = load_first_bytes((const char *)mask + place, count);
    return chosen(__builtin_convertvector(opened != 0, ivec), scores, splat(-INFINITY));
}

/* Replaces a row by the softmax of its scores, and writes their log-sum-exp, unless that is NULL; `powers` has room for
the row in float32. */
INLINE void softmax_row(
    enum form form, char *row, int width, const uint8_t *mask, float scale, float *powers, float *normaliser) {
    vec most = splat(-INFINITY), sums[SUMS];
    for (int i = 0; i < width; i += LANES) {
        vec scores = scores_at(form, row, i, width - i, mask, scale);
        most = larger(most, scores);
        store_first(powers + i, scores, width - i);
    }
    const float largest = largest_of(most);
    for (int s = 0; s < SUMS; s++)
        sums[s] = splat(0);
    for (int i = 0; i < width; i += 16)
        for (int s = 0; s < SUMS; s++) {
            int64_t place = i + s * LANES;
            vec power = exponential(load_first(powers + place, width - place, -INFINITY) - splat(largest));
            store_first(powers + place, power, width - place);
            sums[s] += power;
        }
    for (int s = 1; s < SUMS; s++)
        sums[0] += sums[s];
    const float sum = sum_of(sums[0]);
    const vec factor = splat(1 / sum);
    for (int i = 0; i < width; i += LANES) {
        vec power = load_first(powers + i, width - i, 0);
        store_of(form, row, i, power * factor, width - i);
    }
    if (normaliser)
        *normaliser = largest + logf(sum);
}

INLINE void softmax_of(
    int form, void *rows, int64_t row, int width, const uint8_t *mask, float scale, float *powers,
    float *normaliser) {
    if (form == FLOAT32)
        softmax_row(FLOAT32, (char *)rows + 4 * row * width, width, mask, scale, powers, normaliser);
    else
        softmax_row(BFLOAT16, (char *)rows + 2 * row * width, width, mask, scale, powers, normaliser);
}

int softmax_rows(int64_t num_rows, int width, int form, void *logits, float *normalisers, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed) if (threads > 1 && !is_forked)
    {
        float *powers = malloc(width * sizeof *powers);
        failed = !powers;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < num_rows; row++)
            if (!failed)
                softmax_of(form, logits, row, width, NULL, 1, powers, normalisers + row);
        free(powers);
    }
    return !failed;
}

int attention_softmax(const struct scores *scores, int form, void *rows, int threads) {
    const int64_t of_sentence = scores->num_heads * scores->num_queries;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed) if (threads > 1 && !is_forked)
    {
        float *powers = malloc(scores->num_keys * sizeof *powers);
        failed = !powers;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < scores->num_sentences * of_sentence; row++) {
            int64_t sentence = row / of_sentence, query = row % scores->num_queries;
            const uint8_t *mask =
                scores->mask + sentence * scores->sentence_stride + query * scores->query_stride;
            if (!failed)
                softmax_of(form, rows, row, (int)scores->num_keys, mask, scores->scale, powers, NULL);
        }
        free(powers);
    }
    return !failed;
}

/* With weights w and their gradient g, that of a score is scale * w * (g - sum(w g)). */
INLINE void gradient_row(
    enum form form, int64_t start, int width, const void *weights, const void *gradient, float scale, void *out) {
    vec products = splat(0);
    for (int i = 0; i < width; i += LANES) {
        vec w = load_of(form, weights, start + i, width - i, 0), g = load_of(form, gradient, start + i, width - i, 0);
        products = multiply_add(w, g, products);
    }
    const vec sum = splat(sum_of(products)), factor = splat(scale);
    for (int i = 0; i < width; i += LANES) {
        vec w = load_of(form, weights, start + i, width - i, 0), g = load_of(form, gradient, start + i, width - i, 0);
        store_of(form, out, start + i, factor * w * (g - sum), width - i);
    }
}

void attention_softmax_backward(
    int64_t num_rows, int width, int form, const void *weights, const void *gradient, float scale, void *of_scores,
    int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t row = 0; row < num_rows; row++)
        if (form == FLOAT32)
            gradient_row(FLOAT32, row * width, width, weights, gradient, scale, of_scores);
        else
            gradient_row(BFLOAT16, row * width, width, weights, gradient, scale, of_scores);
}

enum { AT_ONCE = 8 }; /* rows that are summed up together, so that one need not wait for another */

/* Mixes rows by weights: out[a] = sum over b of weights[a * by_out + b * by_row] * rows[b]. */
static void mix(
    int64_t num_outs, int64_t num_rows, const float *weights, int64_t by_out, int64_t by_row, const float *rows,
    int64_t row_stride, int64_t width, float *out, int64_t out_stride) {
    for (int64_t i = 0; i < width; i += LANES)
        for (int64_t first = 0; first < num_outs; first += AT_ONCE) {
            int64_t places[AT_ONCE]; /* after the last one, it is computed again */
            vec sums[AT_ONCE];
            UNROLL for (int k = 0; k < AT_ONCE; k++) {
                places[k] = first + k < num_outs ? first + k : num_outs - 1;
                sums[k] = splat(0);
            }
            for (int64_t row = 0; row < num_rows; row++) {
                const vec values = load_first(rows + row * row_stride + i, width - i, 0);
                UNROLL for (int k = 0; k < AT_ONCE; k++) sums[k] =
                    multiply_add(splat(weights[places[k] * by_out + row * by_row]), values, sums[k]);
            }
            UNROLL for (int k = 0; k < AT_ONCE; k++) store_first(out + places[k] * out_stride + i, sums[k], width - i);
        }
}

/* Rows as columns. */
static void transpose(int64_t num_rows, int width, const float *rows, int64_t row_stride, float *out) {
    for (int i = 0; i < width; i++)
        for (int64_t row = 0; row < num_rows; row++)
            out[i * num_rows + row] = rows[row * row_stride + i];
}

/* The first row of a head. */
static float *head_of(const struct headed *rows, int64_t sentence, int64_t head, int width) {
    return rows->values + sentence * rows->sentence_stride + head * width;
}

int attention_forward(
    const struct scores *scores, int d_k, int d_v, const struct headed *query, const struct headed *key,
    const struct headed *value, float *weights, const struct headed *out, int threads) {
    const int64_t num_heads = scores->num_heads, num_queries = scores->num_queries, num_keys = scores->num_keys;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed) if (threads > 1 && !is_forked)
    {
        float *columns = malloc((d_k + 1) * num_keys * sizeof *columns), *powers = columns + d_k * num_keys;
        failed = !columns;
#pragma omp for schedule(static)
        for (int64_t each = 0; each < scores->num_sentences * num_heads; each++) {
            if (failed)
                continue;
            const int64_t sentence = each / num_heads, head = each % num_heads;
            float *rows = weights + each * num_queries * num_keys;
            transpose(num_keys, d_k, head_of(key, sentence, head, d_k), key->row_stride, columns);
            mix(num_queries, d_k, head_of(query, sentence, head, d_k), query->row_stride, 1, columns, num_keys,
                num_keys, rows, num_keys);
            const uint8_t *mask = scores->mask + sentence * scores->sentence_stride;
            for (int64_t i = 0; i < num_queries; i++, mask += scores->query_stride)
                softmax_of(FLOAT32, rows, i, (int)num_keys, mask, scores->scale, powers, NULL);
            mix(num_queries, num_keys, rows, num_keys, 1, head_of(value, sentence, head, d_v), value->row_stride, d_v,
                head_of(out, sentence, head, d_v), out->row_stride);
        }
        free(columns);
    }
    return !failed;
}

int attention_backward(
    const struct scores *scores, int d_k, int d_v, const struct headed *query, const struct headed *key,
    const struct headed *value, const float *weights, const struct headed *gradient, const struct headed *of_query,
    const struct headed *of_key, const struct headed *of_value, int threads) {
    const int64_t num_heads = scores->num_heads, num_queries = scores->num_queries, num_keys = scores->num_keys;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed) if (threads > 1 && !is_forked)
    {
        float *columns = malloc((d_v + num_queries) * num_keys * sizeof *columns);
        float *of_scores = columns + d_v * num_keys;
        failed = !columns;
#pragma omp for schedule(static)
        for (int64_t each = 0; each < scores->num_sentences * num_heads; each++) {
            if (failed)
                continue;
            const int64_t sentence = each / num_heads, head = each % num_heads;
            const float *rows = weights + each * num_queries * num_keys;
            const float *of_out = head_of(gradient, sentence, head, d_v);
            transpose(num_keys, d_v, head_of(value, sentence, head, d_v), value->row_stride, columns);
            mix(num_queries, d_v, of_out, gradient->row_stride, 1, columns, num_keys, num_keys, of_scores, num_keys);
            for (int64_t i = 0; i < num_queries; i++)
                gradient_row(FLOAT32, i * num_keys, (int)num_keys, rows, of_scores, scores->scale, of_scores);
            mix(num_queries, num_keys, of_scores, num_keys, 1, head_of(key, sentence, head, d_k), key->row_stride, d_k,
                head_of(of_query, sentence, head, d_k), of_query->row_stride);
            mix(num_keys, num_queries, of_scores, 1, num_keys, head_of(query, sentence, head, d_k), query->row_stride,
                d_k, head_of(of_key, sentence, head, d_k), of_key->row_stride);
            mix(num_keys, num_queries, rows, 1, num_keys, of_out, gradient->row_stride, d_v,
                head_of(of_value, sentence, head, d_v), of_value->row_stride);
        }
        free(columns);
    }
    return !failed;
}
