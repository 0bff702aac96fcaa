/* Dropout and the residual connection in training (paper 3.1, 5.4): LayerNorm(x + Dropout(y)) and its gradients, each in
one pass over the rows. Sums over rows have the same bits for any number of threads. */

#include <stdlib.h>

#include "forms.h"
#include "kernels.h"
#include "threads.h"
#include "vector.h"

enum {
    CHUNK = 64,     /* rows whose gradients for gains and biases are summed together */
    BLOCK = 1 << 14 /* values that a thread drops at a time */
};

/* Random numbers of the elements from a place on: a hash of place and key, the finaliser lowbias32 (Wellons 2018) with
a half of the key added before it and the other in its middle. */
INLINE ivec draws_of(int64_t key, int64_t place) {
    uvec bits;
    UNROLL for (int i = 0; i < LANES; i++) bits[i] = (uint32_t)i;
    bits += (uint32_t)place + (uint32_t)key;
    bits ^= bits >> 16;
    bits *= 0x7feb352d;
    bits ^= (uint32_t)(key >> 32);
    bits ^= bits >> 15;
    bits *= 0x846ca68b;
    return (ivec)(bits ^ bits >> 16);
}

/* What dropout multiplies elements by: its scale, or zero. */
INLINE vec share_of(const struct dropout *dropout, int64_t place) {
    if (dropout->bound == INT32_MIN)
        return splat(1);
    ivec stays = draws_of(dropout->key, place) >= splat_bits(dropout->bound);
    return chosen(stays, splat(dropout->scale), splat(0));
}

INLINE void drop_block(
    enum form form, int64_t start, int64_t end, const void *values, const struct dropout *dropout, void *out) {
    for (int64_t i = start; i < end; i += LANES)
        store_of(form, out, i, load_of(form, values, i, end - i, 0) * share_of(dropout, i), end - i);
}

void drop(
    int64_t num_values, int form, const void *values, const struct dropout *dropout, void *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t start = 0; start < num_values; start += BLOCK) {
        const int64_t end = start + BLOCK < num_values ? start + BLOCK : num_values;
        if (form == FLOAT32)
            drop_block(FLOAT32, start, end, values, dropout, out);
        else
            drop_block(BFLOAT16, start, end, values, dropout, out);
    }
}

INLINE void forward_row(
    enum form form, int64_t row, int64_t width, const float *x, const void *y, const struct dropout *dropout,
    const struct norm *norm, float *normed, float *factors, float *out) {
    const int64_t start = row * width;
    vec sum = splat(0), squares = splat(0);
    for (int64_t i = 0; i < width; i += LANES) {
        vec added = load_of(form, y, start + i, width - i, 0) * share_of(dropout, start + i);
        vec total = load_first(x + start + i, width - i, 0) + added;
        store_first(normed + start + i, total, width - i);
        sum += total;
    }
    const float mean = sum_of(sum) / (float)width;
    for (int64_t i = 0; i < width; i += LANES) {
        vec centred = load_first(normed + start + i, width - i, mean) - splat(mean);
        squares = multiply_add(centred, centred, squares);
    }
    const float factor = 1 / sqrtf(sum_of(squares) / (float)width + norm->epsilon);
    factors[row] = factor;
    for (int64_t i = 0; i < width; i += LANES) {
        vec scaled = (load_first(normed + start + i, width - i, 0) - splat(mean)) * splat(factor);
        vec gains = load_first(norm->gains + i, width - i, 0), biases = load_first(norm->biases + i, width - i, 0);
        store_first(normed + start + i, scaled, width - i);
        store_first(out + start + i, multiply_add(scaled, gains, biases), width - i);
    }
}

void add_norm_forward(
    int64_t num_rows, int width, const float *x, int form, const void *y, const struct dropout *dropout,
    const struct norm *norm, float *normed, float *factors, float *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t row = 0; row < num_rows; row++)
        if (form == FLOAT32)
            forward_row(FLOAT32, row, width, x, y, dropout, norm, normed, factors, out);
        else
            forward_row(BFLOAT16, row, width, x, y, dropout, norm, normed, factors, out);
}

/* With g the gradient times the gains and n the normalised row, the gradient of the sum is
factor * (g - mean(g) - n * mean(g n)). */
INLINE void backward_row(
    enum form form, int64_t row, int64_t width, const float *gradient, const float *normed, const float *factors,
    const struct dropout *dropout, const float *gains, float *of_x, void *of_y, float *of_gains, float *of_biases) {
    const int64_t start = row * width;
    vec sum = splat(0), products = splat(0);
    for (int64_t i = 0; i < width; i += LANES) {
        vec given = load_first(gradient + start + i, width - i, 0), n = load_first(normed + start + i, width - i, 0);
        vec scaled = given * load_first(gains + i, width - i, 0);
        sum += scaled;
        products = multiply_add(scaled, n, products);
        store_first(of_gains + i, multiply_add(given, n, load_first(of_gains + i, width - i, 0)), width - i);
        store_first(of_biases + i, load_first(of_biases + i, width - i, 0) + given, width - i);
    }
    const vec mean = splat(sum_of(sum) / (float)width), slope = splat(sum_of(products) / (float)width);
    for (int64_t i = 0; i < width; i += LANES) {
        vec given = load_first(gradient + start + i, width - i, 0), n = load_first(normed + start + i, width - i, 0);
        vec scaled = given * load_first(gains + i, width - i, 0);
        vec of_sum = (scaled - mean - n * slope) * splat(factors[row]);
        store_first(of_x + start + i, of_sum, width - i);
        store_of(form, of_y, start + i, of_sum * share_of(dropout, start + i), width - i);
    }
}

int add_norm_backward(
    int64_t num_rows, int width, const float *gradient, const float *normed, const float *factors, int form,
    const struct dropout *dropout, const float *gains, float *of_x, void *of_y, float *of_gains, float *of_biases,
    int threads) {
    const int64_t num_chunks = (num_rows + CHUNK - 1) / CHUNK;
    float *sums = calloc(2 * num_chunks * width + 1, sizeof *sums);
    if (!sums)
        return 0;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t chunk = 0; chunk < num_chunks; chunk++) {
        float *own = sums + 2 * chunk * width;
        for (int64_t row = chunk * CHUNK; row < num_rows && row < (chunk + 1) * CHUNK; row++)
            if (form == FLOAT32)
                backward_row(
                    FLOAT32, row, width, gradient, normed, factors, dropout, gains, of_x, of_y, own, own + width);
            else
                backward_row(
                    BFLOAT16, row, width, gradient, normed, factors, dropout, gains, of_x, of_y, own, own + width);
    }
    memset(of_gains, 0, width * sizeof *of_gains);
    memset(of_biases, 0, width * sizeof *of_biases);
    for (int64_t chunk = 0; chunk < num_chunks; chunk++)
        for (int i = 0; i < width; i++) {
            of_gains[i] += sums[2 * chunk * width + i];
            of_biases[i] += sums[(2 * chunk + 1) * width + i];
        }
    free(sums);
    return 1;
}
