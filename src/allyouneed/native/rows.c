/* Row-wise operations: the residual connection with its normalisation, and the choice of tokens. */

#include "kernels.h"
#include "vector.h"

VECTOR void add_norm(
    int64_t num_rows, int width, const float *x, const float *y, const float *gains, const float *biases,
    float epsilon, float *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < num_rows; row++) {
        const float *left = x + row * width, *right = y + row * width;
        float *result = out + row * width;
        __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
        for (int i = 0; i < width; i += LANES) {
            __mmask16 some = first_lanes(width - i);
            __m512 total = _mm512_add_ps(_mm512_maskz_loadu_ps(some, left + i), _mm512_maskz_loadu_ps(some, right + i));
            _mm512_mask_storeu_ps(result + i, some, total);
            sum = _mm512_add_ps(sum, total);
        }
        __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)width);
        for (int i = 0; i < width; i += LANES) {
            __mmask16 some = first_lanes(width - i);
            __m512 centred = _mm512_maskz_sub_ps(some, _mm512_maskz_loadu_ps(some, result + i), mean);
            squares = _mm512_fmadd_ps(centred, centred, squares);
        }
        float variance = _mm512_reduce_add_ps(squares) / (float)width;
        __m512 factor = _mm512_set1_ps(1.0f / sqrtf(variance + epsilon));
        for (int i = 0; i < width; i += LANES) {
            __mmask16 some = first_lanes(width - i);
            __m512 normed = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, result + i), mean), factor);
            normed = _mm512_fmadd_ps(
                normed, _mm512_maskz_loadu_ps(some, gains + i), _mm512_maskz_loadu_ps(some, biases + i));
            _mm512_mask_storeu_ps(result + i, some, normed);
        }
    }
}

/* Log-sum-exp of a row. */
VECTOR static float log_sum_exp(const float *logits, int width) {
    __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES)
        most = _mm512_max_ps(most, loaded_or(logits + i, first_lanes(width - i), -INFINITY));
    float largest = _mm512_reduce_max_ps(most);
    __m512 shift = _mm512_set1_ps(largest);
    for (int i = 0; i < width; i += LANES) {
        __mmask16 some = first_lanes(width - i);
        __m512 weight = exponential(_mm512_sub_ps(loaded_or(logits + i, some, -INFINITY), shift));
        sum = _mm512_mask_add_ps(sum, some, sum, weight);
    }
    return largest + logf(_mm512_reduce_add_ps(sum));
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

/* The k largest values of a row and their indices, largest first, the lower index first among equal values. Most
vectors of sixteen hold nothing above the k-th value so far; one comparison rules them out. */
VECTOR static void largest_of(const float *row, int width, int k, float *values, int64_t *ids) {
    for (int i = 0; i < k; i++) {
        values[i] = -INFINITY;
        ids[i] = 0;
    }
    for (int i = 0; i < width; i += LANES) {
        __m512 part = loaded_or(row + i, first_lanes(width - i), -INFINITY);
        __mmask16 above = _mm512_cmp_ps_mask(part, _mm512_set1_ps(values[k - 1]), _CMP_GT_OQ);
        for (; above; above &= (__mmask16)(above - 1)) {
            int place = i + __builtin_ctz(above);
            insert(row[place], place, k, values, ids);
        }
    }
}

void normalisers_of(int64_t num_rows, int width, const float *logits, float *normalisers, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < num_rows; row++)
        normalisers[row] = log_sum_exp(logits + row * width, width);
}

/* The k most probable tokens of each row of logits and their log-probabilities. `excluded` tokens are never chosen
but keep their share of the probability; their logits are overwritten. `normalisers` may be NULL; the default is the
log-sum-exp of each row. */
VECTOR void top_log_probs(
    int64_t num_rows, int width, float *logits, const float *normalisers, const int64_t *excluded, int num_excluded,
    int k, float *values, int64_t *ids, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < num_rows; row++) {
        float *own = logits + row * width, *best = values + row * k;
        float normaliser = normalisers ? normalisers[row] : log_sum_exp(own, width);
        for (int i = 0; i < num_excluded; i++)
            own[excluded[i]] = -INFINITY;
        largest_of(own, width, k, best, ids + row * k);
        for (int i = 0; i < k; i++)
            best[i] -= normaliser;
    }
}
