/* Row-wise operations: normalisation with the residual connection, rotary positions, activations, and the choice of
tokens. */

#include <stdlib.h>

#include "forms.h"
#include "kernels.h"
#include "threads.h"
#include "vector.h"

void add_norm(
    int64_t num_rows, int width, const float *x, const float *y, const struct norm *norm, float *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t row = 0; row < num_rows; row++) {
        const float *left = x + row * width, *right = y ? y + row * width : NULL;
        float *result = out + row * width;
        vec sum = splat(0), squares = splat(0);
        for (int i = 0; i < width; i += LANES) {
            vec total = load_first(left + i, width - i, 0);
            if (right)
                total += load_first(right + i, width - i, 0);
            store_first(result + i, total, width - i);
            sum += total;
        }
        float mean = sum_of(sum) / (float)width;
        for (int i = 0; i < width; i += LANES) {
            vec centred = load_first(result + i, width - i, mean) - splat(mean);
            squares = multiply_add(centred, centred, squares);
        }
        float factor = 1.0f / sqrtf(sum_of(squares) / (float)width + norm->epsilon);
        for (int i = 0; i < width; i += LANES) {
            vec gains = load_first(norm->gains + i, width - i, 0), biases = load_first(norm->biases + i, width - i, 0);
            vec normed = (load_first(result + i, width - i, 0) - splat(mean)) * splat(factor);
            store_first(result + i, multiply_add(normed, gains, biases), width - i);
        }
    }
}

/* The two components of each pair in the other order. */
INLINE vec swapped(vec pairs) {
    typedef uint64_t two __attribute__((vector_size(4 * LANES)));
    two both = (two)pairs;
    return (vec)(both >> 32 | both << 32);
}

/* Turns components i to i + LANES of all heads of a row. */
INLINE void turn_row(
    const struct turn *turn, enum form form, int i, const float *angles, const void *values, int64_t place, void *out,
    int64_t out_place) {
    ivec is_odd;
    UNROLL for (int lane = 0; lane < LANES; lane++) is_odd[lane] = -(lane % 2);
    const int count = turn->d_k - i;
    const vec pairs = load_first(angles + i, count, 0), others = swapped(pairs);
    const vec cosines = chosen(is_odd, others, pairs), sines = chosen(is_odd, pairs, others);
    const ivec is_negative = turn->is_back ? is_odd : ~is_odd;
    const vec factors = chosen(is_negative, -sines, sines);
    for (int64_t head = i; head < turn->num_heads * turn->d_k; head += turn->d_k) {
        const vec x = load_of(form, values, place + head, count, 0);
        store_of(form, out, out_place + head, x * cosines + swapped(x) * factors, count);
    }
}

void turn_pairs(
    const struct turn *turn, int64_t num_rows, int form, const void *values, void *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t row = 0; row < num_rows; row++) {
        const float *angles = turn->angles + turn->positions[row] * turn->d_k;
        for (int i = 0; i < turn->d_k; i += LANES)
            if (form == FLOAT32)
                turn_row(turn, FLOAT32, i, angles, values, row * turn->stride, out, row * turn->out_stride);
            else
                turn_row(turn, BFLOAT16, i, angles, values, row * turn->stride, out, row * turn->out_stride);
    }
}

/* 1 / (1 + e^-x): e^-|x| / (1 + e^-|x|) where x is negative. */
INLINE vec sigmoid(vec x) {
    vec one = splat(1.0f), power = exponential(chosen((ivec)(x < splat(0)), x, -x));
    return chosen((ivec)(x < splat(0)), power, one) / (one + power);
}

/* The probability of a standard normal variable below x: (1 + erf(x / sqrt(2))) / 2, with erf to 1.5e-7 by
Abramowitz and Stegun 7.1.26. */
INLINE vec normal_probability(vec x) {
    vec one = splat(1.0f), half = splat(0.5f);
    vec size = chosen((ivec)(x < splat(0)), -x, x) * splat(0.70710678f);
    vec t = one / multiply_add(size, splat(0.3275911f), one);
    vec sum = splat(1.061405429f);
    sum = multiply_add(sum, t, splat(-1.453152027f));
    sum = multiply_add(sum, t, splat(1.421413741f));
    sum = multiply_add(sum, t, splat(-0.284496736f));
    sum = multiply_add(sum, t, splat(0.254829592f));
    vec beyond = half * sum * t * exponential(-size * size);
    return chosen((ivec)(x < splat(0)), beyond, one - beyond);
}

INLINE vec activated(enum activation activation, vec x) {
    switch (activation) {
    case RELU: return larger(splat(0), x);
    case GELU: return x * normal_probability(x);
    default: return x * sigmoid(x); /* SWISH */
    }
}

void activate(int activation, int64_t num_values, float *values, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t i = 0; i < num_values; i += LANES) {
        vec x = load_first(values + i, num_values - i, 0);
        store_first(values + i, activated(activation, x), num_values - i);
    }
}

void recur(int width, const float *projected, const float *before, float *cell, float *out) {
    for (int i = 0; i < width; i += LANES) {
        vec forget = sigmoid(load_first(projected + i, width - i, 0));
        vec kept = forget * (before ? load_first(before + i, width - i, 0) : splat(0));
        vec candidate = load_first(projected + width + i, width - i, 0);
        vec now = multiply_add(splat(1) - forget, candidate, kept);
        store_first(cell + i, now, width - i);
        store_first(out + i, larger(splat(0), now), width - i);
    }
}

/* Log-sum-exp of a row, from its largest value. */
static float log_sum_exp(const float *logits, int width, float largest) {
    vec sums[SUMS];
    for (int s = 0; s < SUMS; s++)
        sums[s] = splat(0);
    for (int i = 0; i < width; i += 16)
        for (int s = 0; s < SUMS; s++) {
            int64_t place = i + s * LANES;
            sums[s] += exponential(load_first(logits + place, width - place, -INFINITY) - splat(largest));
        }
    for (int s = 1; s < SUMS; s++)
        sums[0] += sums[s];
    return largest + logf(sum_of(sums[0]));
}

/* Inserts a value into the best k so far; among equal values, the earlier one stays first. */
static void insert(float value, int64_t id, int k, float *values, int64_t *ids) {
    if (!(value > values[k - 1]))
        return;
    int place = k - 1;
    for (; place > 0 && value > values[place - 1]; place--) {
        values[place] = values[place - 1];
        ids[place] = ids[place - 1];
    }
    values[place] = value;
    ids[place] = id;
}

/* Tokens that a row does not choose. */
struct exclusion {
    const int64_t *ids;
    int num_ids;
    int64_t other; /* one more; -1 for none */
};

static int is_excluded(const struct exclusion *exclusion, int64_t id) {
    int excluded = id == exclusion->other;
    for (int i = 0; i < exclusion->num_ids; i++)
        excluded |= id == exclusion->ids[i];
    return excluded;
}

/* The k largest values of a row and their indices, largest first, the lower index first among equal values. Most
vectors hold nothing above the k-th value so far; one comparison rules them out. */
static void largest_values(
    const float *row, int width, const struct exclusion *exclusion, int k, float *values, int64_t *ids) {
    for (int i = 0; i < k; i++) {
        values[i] = -INFINITY;
        ids[i] = 0;
    }
    for (int i = 0; i < width; i += LANES) {
        uint32_t above = lanes_above(load_first(row + i, width - i, -INFINITY), values[k - 1]);
        for (; above; above &= above - 1) {
            int place = i + __builtin_ctz(above);
            if (!is_excluded(exclusion, place))
                insert(row[place], place, k, values, ids);
        }
    }
}

/* The largest of a row's values, of which the largest that is not excluded is known. */
static float largest_of_all(const float *row, const struct exclusion *exclusion, float largest) {
    for (int i = 0; i < exclusion->num_ids; i++)
        largest = row[exclusion->ids[i]] > largest ? row[exclusion->ids[i]] : largest;
    return exclusion->other >= 0 && row[exclusion->other] > largest ? row[exclusion->other] : largest;
}

void normalisers_of(int64_t num_rows, int width, const float *logits, float *normalisers) {
    for (int64_t row = 0; row < num_rows; row++) {
        const float *own = logits + row * width;
        vec most = splat(-INFINITY);
        for (int i = 0; i < width; i += LANES)
            most = larger(most, load_first(own + i, width - i, -INFINITY));
        normalisers[row] = log_sum_exp(own, width, largest_of(most));
    }
}

void top_log_probs(
    int64_t num_rows, int width, const float *logits, const float *normalisers, const int64_t *excluded,
    int num_excluded, const uint8_t *cannot_end, int64_t end, int k, float *values, int64_t *ids, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t row = 0; row < num_rows; row++) {
        const float *own = logits + row * width;
        const struct exclusion exclusion = {excluded, num_excluded, cannot_end && cannot_end[row] ? end : -1};
        float *best = values + row * k;
        largest_values(own, width, &exclusion, k, best, ids + row * k);
        const float normaliser =
            normalisers ? normalisers[row] : log_sum_exp(own, width, largest_of_all(own, &exclusion, best[0]));
        for (int i = 0; i < k; i++)
            best[i] -= normaliser;
    }
}
