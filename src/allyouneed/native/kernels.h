/* Structures and functions of the kernels. Python reads them from this file: a declaration is `type name` or
`const type *name`, and its names have commas between them. */

#ifndef ALLYOUNEED_KERNELS_H
#define ALLYOUNEED_KERNELS_H

#include <stdint.h>

/* How `linear.c` reads packed weights of a form. */
struct layout {
    int32_t columns; /* outputs in a panel */
    int32_t values;  /* inputs in a word */
    int32_t offset;  /* int8 only: added to the inputs */
};

/* y = x W^T + b, with weights packed as `linear.c` reads them. */
struct linear {
    int64_t num_inputs;  /* K */
    int64_t num_outputs; /* N */
    int32_t form;
    int32_t num_threads;
    float lower_bound;   /* of y: 0 with ReLU, -infinity without */
    const void *weight;  /* panels x words x columns */
    const void *start;   /* initial value of the sums: the bias; int8: -offset times the column's sum of weights */
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

/* LayerNorm(x + out(f(in(x)))), where f is attention or the identity. */
struct sublayer {
    const struct linear *in;
    const struct linear *out;
    const float *gains;
    const float *biases;
    float epsilon;
};

struct layer {
    int32_t heads, d_k, d_v, threads;
    struct sublayer self_attention;  /* `in` returns concatenated queries, keys and values */
    struct sublayer cross_attention; /* `in` returns queries; it is NULL in the encoder */
    struct sublayer feed_forward;    /* `in` ends with ReLU */
};

/* Writes how weights of a form are packed. */
void layout_of(int form, struct layout *layout);

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

/* Maps x to y, both (num_rows, width). The keys and values of x are written into `keys_values` from row `first` on;
x attends to the rows `own` of it, then to the rows `of_memory` of `memory`, which has the same layout. Returns 0 if
out of memory. */
int layer_forward(
    const struct layer *layer, int64_t num_rows, const float *x, float *keys_values, int64_t first,
    const struct attended *own, const float *memory, const struct attended *of_memory, float *y);

/* The log-sum-exp of each row of logits. */
void normalisers_of(int64_t num_rows, int width, const float *logits, float *normalisers, int threads);

/* The k most probable tokens of each row of logits and their log-probabilities. `excluded` tokens are never chosen
but keep their share of the probability; their logits are overwritten. `normalisers` may be NULL; the default is the
log-sum-exp of each row. */
void top_log_probs(
    int64_t num_rows, int width, float *logits, const float *normalisers, const int64_t *excluded, int num_excluded,
    int k, float *values, int64_t *ids, int threads);

#endif
