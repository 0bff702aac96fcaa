/* Attention (paper 3.2.1) of single queries to lists of rows, as decoding and encoding without padding need it.

The result of a query depends only on the query, its rows and their order, not on the other queries or the number
of threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "products.h"
#include "stored_rows.h"
#include "threads.h"
#include "vector.h"

enum {
    KEYS = 4,                     /* number of keys that a query is compared with together */
    TILE = 32,                    /* number of values that the queries of a group read together */
    MOST_VECTORS = REGISTERS / 2, /* of columns that are summed together, in registers */
    SHARED = 4                    /* number of queries that attend to the same rows and are mixed together */
};

/* What belongs to the words of a head of a query: its step size, and the start of its sums, which undoes the offset of
keys. */
struct scaling {
    float step;
    int32_t start;
};

/* Writes a query as words, head by head. */
INLINE void prepare_query(
    enum form form, const struct heads *heads, int64_t num_words, const float *query, int32_t *words,
    struct scaling *scalings) {
    for (int head = 0; head < heads->num_heads; head++, query += heads->d_k, words += num_words) {
        float step = 1;
        int32_t sum = 0;
        memset(words, 0, num_words * sizeof *words);
        if (form == FLOAT32)
            memcpy(words, query, heads->d_k * sizeof *query);
        else if (form == BFLOAT16)
            round_row_bfloat16(query, heads->d_k, words);
        else if (INT8_VALUES == 2)
            step = round_row_int8(query, heads->d_k, words);
        else {
            step = store_head(INT8, query, heads->d_k, num_words * INT8_VALUES, 0, (char *)words);
            for (int i = 0; i < heads->d_k; i++)
                sum += ((const int8_t *)words)[i];
        }
        scalings[head] = (struct scaling){step, -INT8_OFFSET * sum};
    }
}

/* The dot products of a query with four keys, head by head; the scores of successive heads are `stride` apart. */
INLINE void score(
    enum form form, int num_heads, const struct places *places, const int32_t *query, const struct scaling *scalings,
    const char *const rows[KEYS], float *scores, int64_t stride) {
    const int64_t num_words = places->key_words, of_head = num_words * bytes_in_word(form);
    for (int head = 0; head < num_heads; head++, query += num_words, scores += stride) {
        ivec start = splat_bits(0);
        start[0] = scalings[head].start;
        ivec sums[KEYS] = {start, start, start, start};
        vec totals[KEYS];
        for (int64_t i = 0; i < num_words; i += LANES) {
            ivec part;
            memcpy(&part, query + i, sizeof part);
            UNROLL for (int j = 0; j < KEYS; j++) {
                ivec key = load_words(form, rows[j] + head * of_head + i * bytes_in_word(form));
                sums[j] = add_products(form, sums[j], key, part);
            }
        }
        UNROLL for (int j = 0; j < KEYS; j++)
            totals[j] = form == INT8 ? __builtin_convertvector(sums[j], vec) : (vec)sums[j];
        four_sums(totals, scores);
        if (form == INT8)
            UNROLL for (int j = 0; j < KEYS; j++)
                scores[j] *= ((const float *)(rows[j] + places->steps))[head];
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

INLINE vec load_values(enum form form, const char *from) {
    if (form == FLOAT32)
        return load((const float *)from);
    return form == BFLOAT16 ? load_bfloat16(from) : __builtin_convertvector(load_bytes(from), vec);
}

/* Values, and the queries that mix them with weights of their own. */
struct mixture {
    const struct places *places;
    int64_t num_heads;
    const char *values;
    const int32_t *rows;
    int count;
    const float *weights;   /* (queries, heads, stride) */
    int64_t stride;
    float *out;             /* (queries, columns), filled up */
};

/* Adds weighted values to the results of some queries in the order of the rows, for some vectors of columns. */
INLINE void mix_columns(
    enum form form, int num_queries, int num_vectors, const struct mixture *mixture, int64_t column) {
    const struct places *places = mixture->places;
    const int64_t width = mixture->num_heads * places->value_space;
    const float *weights[SHARED][MOST_VECTORS];
    vec sums[SHARED][MOST_VECTORS];
    float *out = mixture->out + column;
    for (int q = 0; q < num_queries; q++)
        for (int v = 0; v < num_vectors; v++) {
            int64_t head = (column + v * LANES) / places->value_space;
            weights[q][v] = mixture->weights + (q * mixture->num_heads + head) * mixture->stride;
        }
    UNROLL for (int q = 0; q < num_queries; q++)
        UNROLL for (int v = 0; v < num_vectors; v++)
            sums[q][v] = load(out + q * width + v * LANES);
    for (int j = 0; j < mixture->count; j++) {
        const char *value = mixture->values + mixture->rows[j] * places->row + bytes_of(form, column);
        UNROLL for (int v = 0; v < num_vectors; v++) {
            vec part = load_values(form, value + v * bytes_of(form, LANES));
            UNROLL for (int q = 0; q < num_queries; q++)
                sums[q][v] = multiply_add(splat(weights[q][v][j]), part, sums[q][v]);
        }
    }
    UNROLL for (int q = 0; q < num_queries; q++)
        UNROLL for (int v = 0; v < num_vectors; v++)
            store(out + q * width + v * LANES, sums[q][v]);
}

/* Adds weighted values to all columns of some queries; the sums of a step are as many as registers can hold. */
INLINE void mix(enum form form, int num_queries, const struct mixture *mixture) {
    const int64_t width = mixture->num_heads * mixture->places->value_space;
    int64_t column = 0;
    for (int vectors = MOST_VECTORS / num_queries; vectors; vectors /= 2)
        for (; column + vectors * LANES <= width; column += vectors * LANES)
            switch (vectors) { /* constants keep the sums in registers */
#define CASE(vectors) case vectors: mix_columns(form, num_queries, vectors, mixture, column); break;
                CASE(1) CASE(2) CASE(4) CASE(8)
#if REGISTERS == 32
                CASE(16)
#endif
            }
}

/* Prefetches a row; rows are too far apart for the processor to predict the next one. */
static inline void prefetch(const char *row, int64_t num_bytes) {
    for (int64_t i = 0; i < num_bytes; i += CACHE_LINE)
        __builtin_prefetch(row + i);
}

/* A few queries that read the rows together, so that shared rows are in the cache. */
struct group {
    const struct heads *heads;
    struct places places;
    const struct attended *attended;
    int64_t first, end;
    int64_t longest;          /* number of rows of the query that has most */
    int64_t stride;           /* scores of a head */
    float *scores;            /* (queries, heads, stride) */
    int32_t *queries;         /* (queries, words) */
    struct scaling *scalings; /* (queries, heads) */
    float *mixed;             /* (queries, columns), filled up */
};

static inline const int32_t *rows_of(const struct attended *attended, int64_t query) {
    return attended->rows + attended->starts[query];
}

/* Number of rows of a query in the tile from `start` on. */
static inline int count_in_tile(const struct attended *attended, int64_t query, int start) {
    const int count = attended->counts[query] - start;
    return count < TILE ? count : TILE;
}

/* Whether a query and the next ones attend to the same rows in a tile, as beams with a common past do. */
static int share_tile(const struct attended *attended, int64_t query, int64_t end, int start) {
    const int count = count_in_tile(attended, query, start);
    if (count <= 0 || query + SHARED > end)
        return 0;
    const int32_t *rows = rows_of(attended, query) + start;
    for (int64_t i = query + 1; i < query + SHARED; i++) {
        const int32_t *others = rows_of(attended, i) + start;
        if (count_in_tile(attended, i, start) != count
            || (others != rows && memcmp(others, rows, count * sizeof *rows) != 0))
            return 0;
    }
    return 1;
}

INLINE void score_group(enum form form, const struct group *group, const char *table) {
    const struct attended *attended = group->attended;
    const struct places *places = &group->places;
    const int num_heads = group->heads->num_heads;
    for (int j = 0; j < group->longest; j += KEYS)
        for (int64_t i = group->first; i < group->end; i++) {
            const int count = attended->counts[i];
            if (j >= count)
                continue;
            const int32_t *own = rows_of(attended, i);
            const char *rows[KEYS];
            for (int k = 0; k < KEYS; k++)
                rows[k] = table + own[j + k < count ? j + k : count - 1] * places->row;
            for (int k = j + KEYS; k < j + 2 * KEYS && k < count; k++)
                prefetch(table + own[k] * places->row, places->values);
            const int64_t place = i - group->first;
            score(
                form, num_heads, places, group->queries + place * num_heads * places->key_words,
                group->scalings + place * num_heads, rows,
                group->scores + place * num_heads * group->stride + j, group->stride);
        }
}

/* Multiplies the weights of a query by the step sizes of the values. */
static void weigh_steps(const struct group *group, const int32_t *rows, int count, const char *table, float *weights) {
    const int num_heads = group->heads->num_heads;
    const char *steps = table + group->places.steps + num_heads * sizeof(float);
    for (int j = 0; j < count; j++) {
        const float *of_row = (const float *)(steps + rows[j] * group->places.row);
        for (int head = 0; head < num_heads; head++)
            weights[head * group->stride + j] *= of_row[head];
    }
}

/* Turns the scores of a query into the weights of its values. */
INLINE void weigh(enum form form, const struct group *group, int64_t query, const char *table) {
    const struct heads *heads = group->heads;
    const struct attended *attended = group->attended;
    const int64_t place = query - group->first;
    const int count = attended->counts[query];
    const float scale = 1.0f / sqrtf((float)heads->d_k);
    const struct scaling *scalings = group->scalings + place * heads->num_heads;
    float *scores = group->scores + place * heads->num_heads * group->stride;
    for (int head = 0; head < heads->num_heads; head++)
        normalise(
            scores + head * group->stride, count, scale * scalings[head].step, heads->slopes ? heads->slopes[head] : 0,
            attended->positions ? attended->positions[query] : 0);
    if (form == INT8)
        weigh_steps(group, rows_of(attended, query), count, table, scores);
}

INLINE void attend_group(
    enum form form, const struct group *group, const float *queries, int64_t query_stride, const char *table,
    float *out) {
    const struct attended *attended = group->attended;
    const struct places *places = &group->places;
    const int num_heads = group->heads->num_heads, d_v = group->heads->d_v;
    const int64_t num_queries = group->end - group->first, width = num_heads * places->value_space;
    for (int64_t i = 0; i < num_queries; i++)
        prepare_query(
            form, group->heads, places->key_words, queries + (group->first + i) * query_stride,
            group->queries + i * num_heads * places->key_words, group->scalings + i * num_heads);
    score_group(form, group, table);
    for (int64_t i = group->first; i < group->end; i++)
        weigh(form, group, i, table);
    memset(group->mixed, 0, num_queries * width * sizeof(float));
    for (int start = 0; start < group->longest; start += TILE)
        for (int64_t i = 0, together; i < num_queries; i += together) {
            const int64_t query = group->first + i;
            together = share_tile(attended, query, group->end, start) ? SHARED : 1;
            const struct mixture mixture = {
                places, num_heads, table + places->values, rows_of(attended, query) + start,
                count_in_tile(attended, query, start), group->scores + i * num_heads * group->stride + start,
                group->stride, group->mixed + i * width};
            if (together == SHARED)
                mix(form, SHARED, &mixture);
            else
                mix(form, 1, &mixture);
        }
    for (int64_t i = 0; i < num_queries; i++)
        for (int head = 0; head < num_heads; head++)
            memcpy(
                out + ((group->first + i) * num_heads + head) * d_v,
                group->mixed + i * width + head * places->value_space, d_v * sizeof(float));
}

static int attend_from(
    const struct heads *heads, const struct attended *attended, int64_t first, int64_t end, const float *queries,
    int64_t query_stride, const char *table, float *out) {
    struct group group = {
        .heads = heads, .places = places_of(heads), .attended = attended, .first = first, .end = end};
    for (int64_t i = first; i < end; i++)
        group.longest = attended->counts[i] > group.longest ? attended->counts[i] : group.longest;
    group.stride = rounded_up(group.longest, KEYS);
    const int64_t num_queries = end - first, num_heads = heads->num_heads;
    const int64_t of_scores = num_heads * group.stride, of_mixed = num_heads * group.places.value_space;
    const int64_t of_query = num_heads * group.places.key_words;
    group.scores = malloc((size_t)num_queries * (of_scores + of_mixed + of_query + 2 * num_heads) * sizeof(float));
    if (!group.scores)
        return 0;
    group.mixed = group.scores + num_queries * of_scores;
    group.scalings = (struct scaling *)(group.mixed + num_queries * of_mixed);
    group.queries = (int32_t *)(group.scalings + num_queries * num_heads);
    switch (heads->form) {
    case FLOAT32: attend_group(FLOAT32, &group, queries, query_stride, table, out); break;
    case BFLOAT16: attend_group(BFLOAT16, &group, queries, query_stride, table, out); break;
    default: attend_group(INT8, &group, queries, query_stride, table, out);
    }
    free(group.scores);
    return 1;
}

int attend(
    const struct heads *heads, int64_t num_queries, const float *queries, int64_t query_stride, const float *rows,
    const struct attended *attended, float *out, int threads) {
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : failed) if (threads > 1 && !is_forked)
    for (int64_t first = 0; first < num_queries; first += attended->group) {
        int64_t end = first + attended->group < num_queries ? first + attended->group : num_queries;
        failed |= !attend_from(heads, attended, first, end, queries, query_stride, (const char *)rows, out);
    }
    return !failed;
}
