/* Attention (paper 3.2.1) of single queries to lists of rows, as decoding and encoding without padding need it.

The result of a query depends only on the query, its rows and their order, not on the other queries or the number
of threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "mixing.h"
#include "products.h"
#include "stored_rows.h"
#include "threads.h"
#include "vector.h"

enum { KEYS = 4 }; /* number of keys that a query is compared with together */

/* What turns the dot products of a head of a query into scores: what is added, to undo the offset of keys in int8, and
what is multiplied. */
struct scaling {
    int32_t start;
    float factor;
};

/* Writes a query as words, head by head. */
INLINE void prepare_query(
    enum form form, const struct heads *heads, int64_t num_words, const float *query, int32_t *words,
    struct scaling *scalings) {
    const float scale = 1.0f / sqrtf((float)heads->d_k);
    for (int head = 0; head < heads->num_heads; head++, query += heads->d_k, words += num_words) {
        float step = 1;
        int32_t sum = 0;
        memset(words, 0, num_words * sizeof *words);
        if (form == FLOAT32)
            memcpy(words, query, heads->d_k * sizeof *query);
        else if (form == BFLOAT16)
            round_row_bfloat16(query, heads->d_k, words);
        else if (INT8_VALUES == 2)
            step = round_row_int16(query, heads->d_k, MOST_INT8, (char *)words);
        else {
            step = round_to_bytes(query, heads->d_k, num_words * INT8_VALUES, 0, (char *)words);
            for (int i = 0; i < heads->d_k; i++)
                sum += ((const int8_t *)words)[i];
        }
        scalings[head] = (struct scaling){-INT8_OFFSET * sum, scale * step};
    }
}

/* The dot products of a query with four keys, head by head; the scores of successive heads are `stride` apart. */
INLINE void score(
    enum form form, int num_heads, const struct places *places, const int32_t *query, const char *const rows[KEYS],
    float *scores, int64_t stride) {
    const int64_t num_words = places->key_words, of_head = num_words * bytes_in_word(form);
    for (int head = 0; head < num_heads; head++, query += num_words, scores += stride) {
        ivec sums[KEYS] = {splat_bits(0), splat_bits(0), splat_bits(0), splat_bits(0)};
        for (int64_t i = 0; i < num_words; i += LANES) {
            ivec part;
            memcpy(&part, query + i, sizeof part);
            UNROLL for (int j = 0; j < KEYS; j++) {
                ivec key = load_words(form, rows[j] + head * of_head + i * bytes_in_word(form));
                sums[j] = add_products(form, sums[j], key, part);
            }
        }
        if (form == INT8)
            four_whole_sums(sums, scores);
        else {
            vec totals[KEYS];
            UNROLL for (int j = 0; j < KEYS; j++)
                totals[j] = (vec)sums[j];
            four_sums(totals, scores);
        }
    }
}

/* Turns dot products into weights: the softmax of their scaled values, from which `slope` is subtracted for each
position between query and key. In int8, dot products are integers, and `steps` are the step sizes of keys and then, a
stride apart, of values; weights become integers of 16 bits, in pairs. Returns the step size of weights. */
INLINE float normalise(
    enum form form, float *scores, int count, const float *steps, int64_t stride, struct scaling scaling, float slope,
    int64_t position) {
    vec most = splat(-INFINITY), sum = splat(0);
    for (int i = 0; i < count; i += LANES) {
        vec value = load_first(scores + i, count - i, -INFINITY);
        if (form == INT8)
            value = __builtin_convertvector((ivec)value + splat_bits(scaling.start), vec)
                * load_first(steps + i, count - i, 0);
        value *= splat(scaling.factor);
        if (slope != 0) {
            float lost[LANES];
            for (int j = 0; j < LANES; j++)
                lost[j] = slope * fabsf((float)(position - i - j));
            value -= load(lost);
        }
        store_first(scores + i, value, count - i);
        if (count - i < LANES) /* in int8, the other lanes are not minus infinity */
            value = load_first(scores + i, count - i, -INFINITY);
        most = larger(most, value);
    }
    float largest = largest_of(most);
    for (int i = 0; i < count; i += LANES) {
        vec weight = exponential(load_first(scores + i, count - i, -INFINITY) - splat(largest));
        sum += weight;
        if (form == INT8)
            weight *= load_first(steps + stride + i, count - i, 0);
        store_first(scores + i, weight, count - i);
    }
    const float factor = 1.0f / sum_of(sum);
    if (form == INT8)
        return factor * round_row_int16(scores, count, MOST_INT16, (char *)scores);
    for (int i = 0; i < count; i += LANES)
        store_first(scores + i, load_first(scores + i, count - i, 0) * splat(factor), count - i);
    return 1;
}

/* Prefetches a row; rows are too far apart for the processor to predict the next one. */
static inline void prefetch_row(const char *row, int64_t num_bytes) {
    for (int64_t i = 0; i < num_bytes; i += CACHE_LINE)
        prefetch(row + i);
}

/* A few queries that read the rows together, so that shared rows are in the cache. */
struct group {
    const struct heads *heads;
    struct places places;
    const struct attended *attended;
    int64_t first, end;
    int64_t longest;          /* number of rows of the query that has most */
    int64_t stride;           /* scores of a head, whole vectors */
    float *scores;            /* (queries, heads, stride) */
    float *weight_steps;      /* (queries, heads), step sizes of weights in int8 */
    float *steps;             /* (NUM_STEPS, heads, stride), step sizes of a query's keys and values in int8 */
    int32_t *common;          /* (queries), number of first rows in common with the query before in the group */
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

/* Whether a query and the next ones attend to the same rows up to the end of a tile, as beams with a common past do. */
static int share_tile(const struct group *group, int64_t query, int start) {
    const int count = count_in_tile(group->attended, query, start);
    if (query + SHARED > group->end)
        return 0;
    for (int64_t i = query + 1; i < query + SHARED; i++)
        if (group->common[i - group->first] < start + count || count_in_tile(group->attended, i, start) != count)
            return 0;
    return 1;
}

/* Number of first rows that a query has in common with the one before it. */
static int count_in_common(const struct attended *attended, int64_t query) {
    const int32_t *rows = rows_of(attended, query), *before = rows_of(attended, query - 1);
    const int count = attended->counts[query], other = attended->counts[query - 1];
    const int most = count < other ? count : other;
    int common = rows == before ? most : 0;
    while (common < most && rows[common] == before[common])
        common++;
    return common;
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
            const int64_t place = i - group->first;
            for (int k = j + KEYS; k < j + 2 * KEYS && k < count; k++)
                if (k >= group->common[place])
                    prefetch_row(table + own[k] * places->row, places->row);
            score(
                form, num_heads, places, group->queries + place * num_heads * places->key_words, rows,
                group->scores + place * num_heads * group->stride + j, group->stride);
        }
}

/* Gathers the step sizes of the rows of a query, but for those in common with the query before, which are there. */
static void gather_steps(const struct group *group, int64_t query, const char *table) {
    const int32_t *rows = rows_of(group->attended, query);
    const int count = group->attended->counts[query], num_steps = NUM_STEPS * group->heads->num_heads;
    for (int j = group->common[query - group->first]; j < count; j++) {
        const float *of_row = (const float *)(table + rows[j] * group->places.row + group->places.steps);
        for (int i = 0; i < num_steps; i++)
            group->steps[i * group->stride + j] = of_row[i];
    }
}

/* Turns the scores of a query into the weights of its values. */
INLINE void weigh(enum form form, const struct group *group, int64_t query, const char *table) {
    const struct heads *heads = group->heads;
    const struct attended *attended = group->attended;
    const int num_heads = heads->num_heads, count = attended->counts[query];
    const int64_t first = (query - group->first) * num_heads, stride = group->stride;
    const int64_t position = attended->positions ? attended->positions[query] : 0;
    if (form == INT8)
        gather_steps(group, query, table);
    for (int head = 0; head < num_heads; head++)
        group->weight_steps[first + head] = normalise(
            form, group->scores + (first + head) * stride, count, group->steps + head * stride, num_heads * stride,
            group->scalings[first + head], heads->slopes ? heads->slopes[head] : 0, position);
}

INLINE void attend_group(
    enum form form, const struct group *group, const float *queries, int64_t query_stride, const char *table,
    float *out) {
    const struct attended *attended = group->attended;
    const struct places *places = &group->places;
    const int num_heads = group->heads->num_heads, d_v = group->heads->d_v;
    const int64_t num_queries = group->end - group->first, width = num_heads * places->value_space;
    for (int64_t i = 0; i < num_queries; i++) {
        group->common[i] = i == 0 ? 0 : count_in_common(attended, group->first + i);
        prepare_query(
            form, group->heads, places->key_words, queries + (group->first + i) * query_stride,
            group->queries + i * num_heads * places->key_words, group->scalings + i * num_heads);
    }
    score_group(form, group, table);
    for (int64_t i = group->first; i < group->end; i++)
        weigh(form, group, i, table);
    memset(group->mixed, 0, num_queries * width * sizeof(float));
    for (int start = 0; start < group->longest; start += TILE)
        for (int64_t i = 0, together; i < num_queries; i += together) {
            const int64_t query = group->first + i;
            const int count = count_in_tile(attended, query, start);
            together = count > 0 && share_tile(group, query, start) ? SHARED : 1;
            if (count <= 0)
                continue;
            const struct mixture mixture = {
                places, num_heads, table + places->values, rows_of(attended, query) + start, count,
                group->scores + i * num_heads * group->stride + start / weights_in_word(form), group->stride,
                group->weight_steps + i * num_heads, group->mixed + i * width};
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
    group.stride = rounded_up(group.longest, LANES);
    const int64_t num_queries = end - first, num_heads = heads->num_heads;
    const int64_t of_scores = num_heads * group.stride, of_mixed = num_heads * group.places.value_space;
    const int64_t of_query = num_heads * group.places.key_words;
    const int64_t of_steps = heads->form == INT8 ? NUM_STEPS * of_scores : 0;
    const int64_t of_scalings = num_heads * (int64_t)(sizeof(struct scaling) / sizeof(float));
    const int64_t words = of_scores + of_mixed + of_query + of_scalings + num_heads + 1; /* of a query */
    group.scores = malloc((size_t)(num_queries * words + of_steps) * sizeof(float));
    if (!group.scores)
        return 0;
    group.mixed = group.scores + num_queries * of_scores;
    group.steps = group.mixed + num_queries * of_mixed;
    group.weight_steps = group.steps + of_steps;
    group.scalings = (struct scaling *)(group.weight_steps + num_queries * num_heads);
    group.queries = (int32_t *)(group.scalings + num_queries * num_heads);
    group.common = group.queries + num_queries * of_query;
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
