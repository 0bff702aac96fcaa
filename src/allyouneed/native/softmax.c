/* The softmax in training: of the loss's logits, and of attention's scores with its gradient. */

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
    bytes opened = {0};
    if (count >= LANES)
        memcpy(&opened, mask + place, sizeof opened);
    else if (count > 0)
        memcpy(&opened, mask + place, count);
    return chosen(__builtin_convertvector(opened != 0, ivec), scores, splat(-INFINITY));
}

/* Replaces a row by the softmax of its scores and returns their log-sum-exp; `powers` has room for the row in
float32. */
INLINE float softmax_row(enum form form, char *row, int width, const uint8_t *mask, float scale, float *powers) {
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
    return largest + logf(sum);
}

INLINE float softmax_of(
    int form, void *rows, int64_t row, int width, const uint8_t *mask, float scale, float *powers) {
    if (form == FLOAT32)
        return softmax_row(FLOAT32, (char *)rows + 4 * row * width, width, mask, scale, powers);
    return softmax_row(BFLOAT16, (char *)rows + 2 * row * width, width, mask, scale, powers);
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
                normalisers[row] = softmax_of(form, logits, row, width, NULL, 1, powers);
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
                softmax_of(form, rows, row, (int)scores->num_keys, mask, scores->scale, powers);
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
