/* Structures and functions of the kernels. Python reads them from this file: a declaration is `type name` or
`const type *name`, and its names have commas between them. */

#ifndef ALLYOUNEED_KERNELS_H
#define ALLYOUNEED_KERNELS_H

#include <stdint.h>

/* Forms of numbers in weights, and in keys and values. */
enum form { FLOAT32, BFLOAT16, INT8, NUM_FORMS };

/* What the first map of a feed-forward network ends with. */
enum activation { RELU, GELU, SWISH };

/* How `linear.c` reads packed weights of a form. */
struct layout {
    int32_t columns; /* outputs in a panel */
    int32_t values;  /* inputs in a word */
    int32_t words;   /* the number of words of a column is a multiple of it */
    int32_t offset;  /* int8 only: added to the inputs */
    int32_t pairs;   /* int8 only: whether weights of inputs 2i and 2i + 1 must add up to -128 to 128 steps */
};

/* y = x W^T + b, with weights packed as `linear.c` reads them. */
struct linear {
    int64_t num_inputs;  /* K */
    int64_t num_outputs; /* N */
    int32_t form;
    int32_t num_threads;
    float lower_bound;   /* of y: 0 with ReLU, -infinity without */
    const void *weight;  /* panels x words x columns, padded with zeros */
    const void *start;   /* initial value of the sums: the bias; int8: -offset times the column's sum of weights */
    const float *scale;  /* int8 only: step size of each column's weights */
    const float *bias;   /* int8 only */
};

/* Heads of attention, and how their keys and values are stored. */
struct heads {
    int32_t num_heads, d_k, d_v;
    int32_t form;        /* of stored keys and values */
    const float *slopes; /* what a score loses per position between query and key (ALiBi); NULL for nothing */
};

/* Query i attends to the rows `rows[starts[i]]` to `rows[starts[i] + counts[i] - 1]` of keys and values. */
struct attended {
    const int32_t *rows;
    const int64_t *starts;
    const int32_t *counts;
    const int64_t *positions; /* of the queries, if row j of each has position j (ALiBi); else NULL */
    int64_t group;            /* number of queries that read the rows together */
};

/* LayerNorm; none if `gains` is NULL. */
struct norm {
    const float *gains;
    const float *biases;
    float epsilon;
};

/* Rotary positions (Su et al. 2021) of rows of heads. */
struct turn {
    int32_t num_heads, d_k;
    int64_t stride, out_stride; /* of rows, in values; the heads of a row are contiguous */
    const int64_t *positions;   /* of each row */
    const float *angles;        /* positions x d_k: the cosine and the sine of each pair */
    int32_t is_back;            /* whether by the negative angles, as gradients are */
};

/* Dropout in training: an element stays, times `scale`, if the number of 32 bits drawn for its place is at least
`bound`; all stay if that is the least number. The key decides what is drawn, in both directions the same. */
struct dropout {
    int64_t key;
    int32_t bound;
    float scale;
};

/* Scores of attention in training, (sentences, heads, queries, keys), before they are scaled. Byte
`mask[sentence * sentence_stride + query * query_stride + key]` is 1 where a query may attend. */
struct scores {
    int64_t num_sentences, num_heads, num_queries, num_keys;
    int64_t sentence_stride, query_stride;
    const uint8_t *mask;
    float scale;
};

/* Rows of heads, those of a row contiguous; strides in values. */
struct headed {
    float *values;
    int64_t sentence_stride, row_stride;
};

/* A map f(x) = out(g(in(x))), where g is attention or an activation, with its norm: LayerNorm(x + f(x)), or
x + f(LayerNorm(x)) with pre-norm. */
struct sublayer {
    const struct linear *in;
    const struct linear *out;
    struct norm norm;
};

struct layer {
    struct sublayer self_attention;  /* `in` returns concatenated queries, keys and values; a recurrent unit (SSRU) in
                                        its place has no `out`, and `in` returns forget gates and candidates */
    struct sublayer cross_attention; /* `in` returns queries; it is NULL in the encoder */
    struct sublayer feed_forward;    /* with ReLU, `in` ends with it */
};

/* An encoder or a decoder. */
struct stack {
    int32_t num_layers, d_model, threads, pre_norm, activation;
    int32_t zero_token;      /* its embedding is a zero vector; -1 for none */
    int32_t alias, original; /* a token that has the embedding of another; -1 for none */
    int32_t in_bfloat16;     /* whether embeddings are the bits of bfloat16, not float32 */
    float embedding_scale;
    const void *embeddings;  /* tokens x d_model */
    const struct layer *layers;
    struct norm norm;        /* after the last layer */
    struct heads heads;      /* of self-attention; a cell counts as the value of one head without keys */
    struct heads cross_heads;
};

/* Tokens to read. Their keys and values become rows of the tables from `first` on. */
struct tokens {
    int64_t num_tokens;
    const int64_t *ids;
    const int64_t *positions;
    const float *encodings; /* positions x d_model, added to the embeddings; NULL for none */
    const float *angles;    /* positions x d_k: cosines and sines that turn queries and keys (rotary); NULL for none */
    int64_t first;
    struct attended own;       /* rows of the tables */
    struct attended of_memory; /* decoder only: rows of the memory */
    int64_t layer;             /* decoder only: at whose cross-attention to stop, if `queries` is not NULL */
    float *queries;            /* its queries, (num_tokens, heads * d_k); then hidden states mean nothing */
};

/* Sentences that a decoder writes, `beam_size` hypotheses each, and the rows of their keys and values. */
struct decoding {
    const struct stack *stack;       /* the decoder */
    const struct linear *project;    /* maps hidden states to logits; only for `search_steps` */
    float **tables;                  /* a table of keys and values for each layer */
    const float **memory;            /* a table of the sources' keys and values for each layer */
    const float *encodings, *angles; /* as in `struct tokens`, up to the positions that are read next */
    int64_t num_sentences, beam_size;
    int64_t num_positions;           /* for which `ancestry` has room */
    int64_t *positions;              /* of the next token of each sentence */
    int32_t *ancestry;               /* (sentences, beams, positions): the row of each token */
    const int32_t *memory_rows;      /* 0, 1, 2 and so on; each source has a range of them */
    const int64_t *memory_starts;    /* of each source: its first row */
    const int32_t *memory_counts;    /* of each source: the number of its rows */
};

/* The hypotheses of a batch, as `Beams` in inference/beams.py. */
struct beams {
    int64_t num_sentences, beam_size, n_best, num_positions;
    int64_t num_candidates; /* of each sentence in a step */
    int64_t end;            /* the end symbol */
    int64_t early_stopping;
    double *scores;
    int64_t *lengths;
    int64_t *max_lengths;
    int64_t *tokens;
    int64_t *parents;
    float *log_probs;
    int64_t *num_ended;
    void *finished;
    double *penalties; /* divisor of the score of each length */
};

/* Writes how weights of a form are packed. */
void layout_of(int form, struct layout *layout);

/* Maps x (num_rows, K) to y (num_rows, N), both contiguous. Returns 0 if there is no memory for the rounded rows. */
int linear_forward(const struct linear *layer, const float *x, int64_t num_rows, float *y);

/* Number of words of 32 bits in a row of keys and values. */
int row_words(const struct heads *heads);

/* Stores the keys and values of num_rows tokens, a stride apart, each the keys of all heads and then the values. */
void store_keys_values(
    const struct heads *heads, int64_t num_rows, const float *keys_values, int64_t stride, float *rows);

/* Attention of queries, a stride apart, to rows of keys and values. Returns 0 if out of memory. */
int attend(
    const struct heads *heads, int64_t num_queries, const float *queries, int64_t query_stride, const float *rows,
    const struct attended *attended, float *out, int threads);

/* out = LayerNorm(x + y) (paper 3.1); y may be NULL for zeros, and out may be x. */
void add_norm(
    int64_t num_rows, int width, const float *x, const float *y, const struct norm *norm, float *out, int threads);

/* Turns pairs of components by the angles of each row's position; `out` may be `values`. */
void turn_pairs(
    const struct turn *turn, int64_t num_rows, int form, const void *values, void *out, int threads);

/* out = Dropout(values), in float32 or bfloat16; also the gradient, from that of `out`. */
void drop(
    int64_t num_values, int form, const void *values, const struct dropout *dropout, void *out, int threads);

/* out = LayerNorm(x + Dropout(y)) in training, y in float32 or bfloat16. Writes the normalised rows before gains and
biases, and the factor of each, for `add_norm_backward`. */
void add_norm_forward(
    int64_t num_rows, int width, const float *x, int form, const void *y, const struct dropout *dropout,
    const struct norm *norm, float *normed, float *factors, float *out, int threads);

/* The gradients of `add_norm_forward`, that of y in its form. Returns 0 if out of memory. */
int add_norm_backward(
    int64_t num_rows, int width, const float *gradient, const float *normed, const float *factors, int form,
    const struct dropout *dropout, const float *gains, float *of_x, void *of_y, float *of_gains, float *of_biases,
    int threads);

/* Adds values in bfloat16 to sums. */
void accumulate(int64_t num_values, const void *values, float *sums, int threads);

/* out = scale (values - row), for each row of values in float32 or bfloat16; `out` may be `values`. */
void scaled_difference(
    int64_t num_rows, int width, int form, const void *values, const float *row, float scale, float *out, int threads);

/* Applies an activation in place. */
void activate(int activation, int64_t num_values, float *values, int threads);

/* Reads a token with a recurrent unit: cell = f before + (1 - f) candidate and out = max(0, cell), where f is the
sigmoid of the gate. `projected` has the gates and then the candidates; `before` is NULL for zeros. */
void recur(int width, const float *projected, const float *before, float *cell, float *out);

/* Maps tokens to the hidden states of the last layer, (num_tokens, d_model). `tables` has a table of keys and values
for each layer, `memory` one of the sources' for each layer of the decoder. Returns 0 if out of memory. */
int stack_forward(
    const struct stack *stack, const struct tokens *tokens, float **tables, const float **memory, float *hidden);

/* The log-sum-exp of each row of logits. */
void normalisers_of(int64_t num_rows, int width, const float *logits, float *normalisers);

/* Replaces each row of logits, in float32 or bfloat16, by its softmax, and writes its log-sum-exp. Returns 0 if out of
memory. */
int softmax_rows(int64_t num_rows, int width, int form, void *logits, float *normalisers, int threads);

/* Replaces scores, in float32 or bfloat16, by the weights of attention (3.2.1). Returns 0 if out of memory. */
int attention_softmax(const struct scores *scores, int form, void *rows, int threads);

/* Equation 1 in each head of float32: writes the weights (sentences, heads, queries, keys), and the values mixed by
them. Returns 0 if out of memory. */
int attention_forward(
    const struct scores *scores, int d_k, int d_v, const struct headed *query, const struct headed *key,
    const struct headed *value, float *weights, const struct headed *out, int threads);

/* The gradients of query, key and value, from the weights and the gradient of the mixture. Returns 0 if out of
memory. */
int attention_backward(
    const struct scores *scores, int d_k, int d_v, const struct headed *query, const struct headed *key,
    const struct headed *value, const float *weights, const struct headed *gradient, const struct headed *of_query,
    const struct headed *of_key, const struct headed *of_value, int threads);

/* The gradient of the scores, from the weights and theirs; all in a form. */
void attention_softmax_backward(
    int64_t num_rows, int width, int form, const void *weights, const void *gradient, float scale, void *of_scores,
    int threads);

/* The k most probable tokens of each row of logits and their log-probabilities. `excluded` tokens are never chosen
but keep their share of the probability, nor is `end` in rows that `cannot_end`. `normalisers` may be NULL, the default
is the log-sum-exp of each row; `cannot_end` may be NULL, too. */
void top_log_probs(
    int64_t num_rows, int width, const float *logits, const float *normalisers, const int64_t *excluded,
    int num_excluded, const uint8_t *cannot_end, int64_t end, int k, float *values, int64_t *ids, int threads);

/* Appends a token to each hypothesis, but for those whose score is -infinity; all are read if `scores` is NULL. Their
keys and values become rows of the tables from `first` on. Writes their hidden states, (tokens read, d_model), and
returns their number, 0 if out of memory. */
int read_tokens(
    const struct decoding *decoding, int64_t first, const int64_t *tokens, const double *scores, float *hidden);

/* Makes hypothesis b of each sentence a continuation of hypothesis `parents[b]`. Returns 0 if out of memory. */
int reorder_hypotheses(const struct decoding *decoding, const int64_t *parents);

/* Extends the hypotheses of every sentence by the best of k tokens each, (sentences, beams, k), and marks the
sentences that are done. Writes the parent of each new hypothesis. Returns 0 if out of memory. */
int advance_beams(
    const struct beams *beams, int64_t k, const float *log_probs, const int64_t *tokens, int64_t *parents,
    uint8_t *done);

/* Whole steps of beam search, `num_steps` of them or until a sentence is done: each reads the last token of each
hypothesis, chooses the next ones, without `excluded` ones and without the end symbol in sentences that `cannot_end`
(NULL: all can), and advances and reorders the hypotheses. `logits` has room for those of all hypotheses; `parents` and
`done` are those of the last step. For `first` and what is returned, see `read_tokens`. */
int search_steps(
    const struct decoding *decoding, int64_t first, const struct beams *beams, const int64_t *excluded,
    int num_excluded, const uint8_t *cannot_end, int num_steps, float *logits, int64_t *parents, uint8_t *done);

#endif
