/* Attention (paper 3.2.1) of single queries to lists of rows, as decoding and encoding without padding need it.

A row holds the keys and values of a token in words of 32 bits: the keys of each head, then the values of each, every
head filled up with zeros to whole vectors. A word is a float, or two values in bfloat16 that are LANES apart, the
first in its low half.

The result of a query depends only on the query, its rows and their order, not on the other queries or the number
of threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "vector.h"

enum {
    KEYS = 4,                    /* number of keys that a query is compared with together */
    TILE = 32,                   /* number of values that the queries of a group read together */
    MOST_VECTORS = REGISTERS / 2 /* of columns that are summed together, in registers */
};

static inline int64_t rounded_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* Number of values of a head with zeros. */
static inline int64_t filled(const struct heads *heads, int64_t width) {
    return rounded_up(width, heads->form == FLOAT32 ? LANES : 2 * LANES);
}

/* Number of words of all heads. */
static inline int64_t words_of(const struct heads *heads, int64_t width) {
    return heads->num_heads * filled(heads, width) / (heads->form == FLOAT32 ? 1 : 2);
}

int row_words(const struct heads *heads) {
    return (int)(words_of(heads, heads->d_k) + words_of(heads, heads->d_v));
}

/* Copies heads, each filled up with zeros. */
static void fill_up(const struct heads *heads, const float *from, int64_t width, float *to) {
    const int64_t space = filled(heads, width);
    for (int head = 0; head < heads->num_heads; head++)
        for (int64_t i = 0; i < space; i += LANES)
            store(to + head * space + i, load_first(from + head * width + i, width - i, 0));
}

static void store_heads(const struct heads *heads, const float *from, int64_t width, float *to) {
    const int64_t space = filled(heads, width);
    if (heads->form == FLOAT32) {
        fill_up(heads, from, width, to);
        return;
    }
    for (int head = 0; head < heads->num_heads; head++, from += width)
        for (int64_t i = 0; i < space; i += 2 * LANES, to += LANES) {
            ivec low = (ivec)to_bfloat16(load_first(from + i, width - i, 0));
            ivec high = (ivec)to_bfloat16(load_first(from + i + LANES, width - i - LANES, 0));
            store(to, (vec)((low >> 16 & 0xffff) | high));
        }
}

void store_keys_values(
    const struct heads *heads, int64_t num_rows, const float *keys_values, int64_t stride, float *rows) {
    const int64_t key_words = words_of(heads, heads->d_k), words = row_words(heads);
    for (int64_t row = 0; row < num_rows; row++, keys_values += stride, rows += words) {
        store_heads(heads, keys_values, heads->d_k, rows);
        store_heads(heads, keys_values + heads->num_heads * heads->d_k, heads->d_v, rows + key_words);
    }
}

/* The first of the two values in each word. */
INLINE vec first_values(vec words) {
    return (vec)((ivec)words << 16);
}

INLINE vec second_values(vec words) {
    return (vec)((ivec)words & splat_bits(~0xffff));
}

/* The dot products of a head's query with its part of four keys. */
INLINE void four_dots(int form, const float *query, const float *const keys[KEYS], int64_t words, float *dots) {
    vec sums[KEYS] = {splat(0), splat(0), splat(0), splat(0)};
    for (int64_t i = 0; i < words; i += LANES) {
        if (form == FLOAT32) {
            vec part = load(query + i);
            UNROLL for (int j = 0; j < KEYS; j++)
                sums[j] = multiply_add(part, load(keys[j] + i), sums[j]);
        } else {
            vec part = load(query + 2 * i), next = load(query + 2 * i + LANES);
            UNROLL for (int j = 0; j < KEYS; j++) {
                vec both = load(keys[j] + i);
                sums[j] = multiply_add(part, first_values(both), sums[j]);
                sums[j] = multiply_add(next, second_values(both), sums[j]);
            }
        }
    }
    four_sums(sums, dots);
}

/* The dot products of all heads of a query with four keys; the scores of successive heads are `stride` apart. */
INLINE void score(
    int form, int num_heads, const float *query, const float *const rows[KEYS], int64_t words, float *scores,
    int64_t stride) {
    for (int head = 0; head < num_heads; head++) {
        const float *keys[KEYS];
        UNROLL for (int j = 0; j < KEYS; j++)
            keys[j] = rows[j] + head * words;
        four_dots(form, query + head * words * (form == FLOAT32 ? 1 : 2), keys, words, scores + head * stride);
    }
}

/* Turns dot products into weights that sum to one: the softmax of their scaled values, from which `slope` is
subtracted for each position between query and key. */
static void normalise(float *scores, int count, float scale, float slope, int64_t position) {
    vec most = splat(-INFINITY), sum = splat(0);
    for (int i = 0; i < count; i += LANES) {
        vec value = load_first(scores + i, count - i, -INFINITY) * splat(scale);
        if (slope != 0) {
            float lost[LANES];
            for (int j = 0; j < LANES; j++)
                lost[j] = slope * fabsf((float)(position - i - j));
            value -= load(lost);
        }
        store_first(scores + i, value, count - i);
        most = larger(most, value);
    }
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
    int form, const float *const *weights, const float *values, int64_t stride, const int32_t *rows, int count,
    int vectors, float *out) {
    vec sums[MOST_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++)
        sums[v] = load(out + v * LANES);
    for (int j = 0; j < count; j++) {
        const float *value = values + rows[j] * stride;
        if (form == FLOAT32)
            UNROLL for (int v = 0; v < vectors; v++)
                sums[v] = multiply_add(splat(weights[v][j]), load(value + v * LANES), sums[v]);
        else
            UNROLL for (int v = 0; v < vectors; v += 2) {
                vec both = load(value + v / 2 * LANES), weight = splat(weights[v][j]);
                sums[v] = multiply_add(weight, first_values(both), sums[v]);
                sums[v + 1] = multiply_add(weight, second_values(both), sums[v + 1]);
            }
    }
    UNROLL for (int v = 0; v < vectors; v++)
        store(out + v * LANES, sums[v]);
}

/* Adds weighted values to `out` for all columns of all heads, which are filled up with zeros. */
INLINE void mix(
    int form, const struct heads *heads, const float *scores, int64_t stride, const float *values,
    int64_t value_stride, const int32_t *rows, int count, float *out) {
    const int64_t space = filled(heads, heads->d_v), width = heads->num_heads * space;
    int64_t column = 0;
    for (int vectors = MOST_VECTORS; vectors; vectors /= 2)
        for (; column + vectors * LANES <= width; column += vectors * LANES) {
            const float *weights[MOST_VECTORS];
            for (int v = 0; v < vectors; v++)
                weights[v] = scores + (column + v * LANES) / space * stride;
            const float *part = values + column / (form == FLOAT32 ? 1 : 2);
            float *sums = out + column;
            switch (vectors) { /* constants keep the sums in registers */
#define CASE(vectors) \
    case vectors: mix_columns(form, weights, part, value_stride, rows, count, vectors, sums); break;
                CASE(8) CASE(4) CASE(2)
#if REGISTERS == 32
                CASE(16)
#endif
            default:
                if (form == FLOAT32) /* the vectors of a bfloat16 head are even in number */
                    mix_columns(FLOAT32, weights, part, value_stride, rows, count, 1, sums);
            }
        }
}

/* Prefetches a row; rows are too far apart for the processor to predict the next one. */
static inline void fetch(const float *row, int64_t words) {
    for (int64_t i = 0; i < words; i += 16) /* words in a cache line */
        __builtin_prefetch(row + i);
}

/* A few queries that read the rows together, so that shared rows are in the cache. */
struct group {
    const struct attended *attended;
    int64_t first, end;
    int longest;      /* number of rows of the query that has most */
    int64_t stride;   /* scores of a head */
    float *scores;    /* (queries, heads, stride) */
    float *queries;   /* (queries, words), filled up */
    float *mixed;     /* (words), filled up */
};

INLINE void score_group(int form, const struct heads *heads, const struct group *group, const float *table) {
    const struct attended *attended = group->attended;
    const int64_t key_words = words_of(heads, heads->d_k), words = row_words(heads);
    const int64_t query_width = heads->num_heads * filled(heads, heads->d_k);
    for (int j = 0; j < group->longest; j += KEYS)
        for (int64_t i = group->first; i < group->end; i++) {
            const int count = attended->counts[i];
            if (j >= count)
                continue;
            const int32_t *own = attended->rows + attended->starts[i];
            const float *rows[KEYS];
            for (int k = 0; k < KEYS; k++)
                rows[k] = table + own[j + k < count ? j + k : count - 1] * words;
            for (int k = j + KEYS; k < j + 2 * KEYS && k < count; k++)
                fetch(table + own[k] * words, key_words);
            const int64_t place = i - group->first;
            score(
                form, heads->num_heads, group->queries + place * query_width, rows, key_words / heads->num_heads,
                group->scores + place * heads->num_heads * group->stride + j, group->stride);
        }
}

INLINE void attend_group(
    int form, const struct heads *heads, const struct group *group, const float *queries, int64_t query_stride,
    const float *table, float *out) {
    const struct attended *attended = group->attended;
    const int num_heads = heads->num_heads;
    const int64_t space = filled(heads, heads->d_v), words = row_words(heads);
    const float scale = 1.0f / sqrtf((float)heads->d_k), *values = table + words_of(heads, heads->d_k);
    for (int64_t i = group->first; i < group->end; i++)
        fill_up(
            heads, queries + i * query_stride, heads->d_k,
            group->queries + (i - group->first) * num_heads * filled(heads, heads->d_k));
    score_group(form, heads, group, table);
    float *scores = group->scores;
    for (int64_t i = group->first; i < group->end; i++)
        for (int head = 0; head < num_heads; head++, scores += group->stride)
            normalise(
                scores, attended->counts[i], scale, heads->slopes ? heads->slopes[head] : 0,
                attended->positions ? attended->positions[i] : 0);
    const int64_t mixed_width = num_heads * space;
    memset(group->mixed, 0, (group->end - group->first) * mixed_width * sizeof(float));
    for (int start = 0; start < group->longest; start += TILE)
        for (int64_t i = group->first; i < group->end; i++) {
            const int64_t place = i - group->first;
            const int count = attended->counts[i] - start;
            mix(
                form, heads, group->scores + place * num_heads * group->stride + start, group->stride, values, words,
                attended->rows + attended->starts[i] + start, count < TILE ? count : TILE,
                group->mixed + place * mixed_width);
        }
    for (int64_t i = group->first; i < group->end; i++)
        for (int head = 0; head < num_heads; head++)
            memcpy(
                out + (i * num_heads + head) * heads->d_v,
                group->mixed + ((i - group->first) * num_heads + head) * space, heads->d_v * sizeof(float));
}

static int attend_from(
    const struct heads *heads, const struct attended *attended, int64_t first, int64_t end, const float *queries,
    int64_t query_stride, const float *table, float *out) {
    int longest = 0;
    for (int64_t i = first; i < end; i++)
        longest = attended->counts[i] > longest ? attended->counts[i] : longest;
    struct group group = {attended, first, end, longest, rounded_up(longest, KEYS), NULL, NULL, NULL};
    const int64_t num_queries = end - first, num_heads = heads->num_heads;
    const int64_t of_scores = num_heads * group.stride, of_query = num_heads * filled(heads, heads->d_k);
    const int64_t of_mixed = num_heads * filled(heads, heads->d_v);
    group.scores = malloc((size_t)num_queries * (of_scores + of_query + of_mixed) * sizeof(float));
    if (!group.scores)
        return 0;
    group.queries = group.scores + num_queries * of_scores;
    group.mixed = group.queries + num_queries * of_query;
    if (heads->form == FLOAT32)
        attend_group(FLOAT32, heads, &group, queries, query_stride, table, out);
    else
        attend_group(BFLOAT16, heads, &group, queries, query_stride, table, out);
    free(group.scores);
    return 1;
}

int attend(
    const struct heads *heads, int64_t num_queries, const float *queries, int64_t query_stride, const float *rows,
    const struct attended *attended, float *out, int threads) {
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : failed) if (threads > 1)
    for (int64_t first = 0; first < num_queries; first += attended->group) {
        int64_t end = first + attended->group < num_queries ? first + attended->group : num_queries;
        failed |= !attend_from(heads, attended, first, end, queries, query_stride, rows, out);
    }
    return !failed;
}
