/* Structures and functions shared by the kernels. */

#ifndef ALLYOUNEED_KERNELS_H
#define ALLYOUNEED_KERNELS_H

#include <stdint.h>

/* y = x W^T + b, with weights packed as `linear.c` reads them. */
struct linear {
    int64_t num_inputs;  /* K */
    int64_t num_outputs; /* N */
    int32_t form;
    int32_t num_threads;
    float lower_bound;   /* of y: 0 with ReLU, -infinity without */
    const void *weight;  /* panels x words x 32 columns */
    const void *start;   /* initial value of the sums: the bias; int8: -128 times the column's sum of weights */
    const float *scale;  /* int8 only: step size of each column's weights */
    const float *bias;   /* int8 only */
};

/* Query i attends to the rows `rows[starts[i]]` to `rows[starts[i] + counts[i] - 1]` of keys and values. */
struct attended {
    const int32_t *rows;
    const int64_t *starts;
    const int32_t *counts;
    int64_t group; /* number of queries that read the rows together */
};

/* Maps x (num_rows, K) to y (num_rows, N), both contiguous. Returns 0 if there is no memory for the rounded rows. */
int linear_forward(const struct linear *layer, const float *x, int64_t num_rows, float *y);

/* Attention; rows are a stride apart and hold all heads in sequence. Returns 0 if out of memory. */
int attend(
    int64_t num_queries, int heads, int d_k, int d_v, const float *queries, int64_t query_stride, const float *keys,
    int64_t key_stride, const float *values, int64_t value_stride, const struct attended *attended, float *out,
    int threads);

/* out = LayerNorm(x + y) (paper 3.1), with gains and biases; out may be x. */
void add_norm(
    int64_t num_rows, int width, const float *x, const float *y, const float *gains, const float *biases,
    float epsilon, float *out, int threads);

#endif
