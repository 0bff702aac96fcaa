/* Sums of values that are weighted by attention, for queries that attend to the same rows.

In int8, weights are integers too, of 16 bits with a step size of each query and head, so that an instruction multiplies
the values of two rows. The sums of a tile are exact. */

#ifndef ALLYOUNEED_MIXING_H
#define ALLYOUNEED_MIXING_H

#include "kernels.h"
#include "products.h"
#include "stored_rows.h"
#include "vector.h"

enum {
    TILE = 32,                    /* number of values that queries mix at a time: 32 * 127 * 32767 < 2^31 */
    MOST_VECTORS = REGISTERS / 2, /* of columns that are summed together, in registers */
    SHARED = 4                    /* number of queries that attend to the same rows and are mixed together */
};

/* Values of at most a tile, and the queries that mix them with weights of their own. */
struct mixture {
    const struct places *places;
    int64_t num_heads;
    const char *values;
    const int32_t *rows;
    int count;
    const float *weights; /* (queries, heads, stride); in int8, words of two integers, a 0 after an odd number */
    int64_t stride;
    const float *steps;   /* (queries, heads), step sizes of weights in int8 */
    float *out;           /* (queries, columns), filled up */
};

/* Pairs of the signed bytes of two rows in 16 bits each, of 2 * LANES columns in the order that `in_order` undoes. */
INLINE void load_pairs(const char *first, const char *second, ivec pairs[2]) {
#if HAS_AVX512
    __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)first));
    __m512i y = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)second));
    pairs[0] = (ivec)_mm512_unpacklo_epi16(x, y);
    pairs[1] = (ivec)_mm512_unpackhi_epi16(x, y);
#elif HAS_AVX2
    __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)first));
    __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)second));
    pairs[0] = (ivec)_mm256_unpacklo_epi16(x, y);
    pairs[1] = (ivec)_mm256_unpackhi_epi16(x, y);
#elif HAS_NEON
    int16x8_t x = vmovl_s8(vld1_s8((const int8_t *)first)), y = vmovl_s8(vld1_s8((const int8_t *)second));
    pairs[0] = (ivec)vzip1q_s16(x, y);
    pairs[1] = (ivec)vzip2q_s16(x, y);
#else
    int16_t halves[4 * LANES];
    for (int i = 0; i < 4 * LANES; i++)
        halves[i] = (int8_t)(i % 2 ? second : first)[i / 2];
    memcpy(pairs, halves, sizeof halves);
#endif
}

/* Puts columns that `load_pairs` has read in order. */
INLINE void in_order(vec columns[2]) {
#if HAS_AVX512
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    vec first = _mm512_permutex2var_ps(columns[0], low, columns[1]);
    columns[1] = _mm512_permutex2var_ps(columns[0], high, columns[1]);
    columns[0] = first;
#elif HAS_AVX2
    vec first = _mm256_permute2f128_ps(columns[0], columns[1], 0x20);
    columns[1] = _mm256_permute2f128_ps(columns[0], columns[1], 0x31);
    columns[0] = first;
#else
    (void)columns; /* they are */
#endif
}

INLINE int weights_in_word(enum form form) {
    return form == INT8 ? 2 : 1;
}

INLINE vec load_values(enum form form, const char *from) {
    return form == FLOAT32 ? load((const float *)from) : load_bfloat16(from);
}

/* Adds weighted values to the results of some queries in the order of the rows, for some vectors of columns. */
INLINE void mix_floats(
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

/* The same in int8, for an even number of vectors. */
INLINE void mix_integers(int num_queries, int num_vectors, const struct mixture *mixture, int64_t column) {
    const struct places *places = mixture->places;
    const int64_t width = mixture->num_heads * places->value_space;
    const float *weights[SHARED][MOST_VECTORS / 2];
    float steps[SHARED][MOST_VECTORS / 2];
    ivec sums[SHARED][MOST_VECTORS];
    for (int q = 0; q < num_queries; q++)
        for (int v = 0; v < num_vectors / 2; v++) {
            int64_t place = q * mixture->num_heads + (column + 2 * v * LANES) / places->value_space;
            weights[q][v] = mixture->weights + place * mixture->stride;
            steps[q][v] = mixture->steps[place];
        }
    UNROLL for (int q = 0; q < num_queries; q++)
        UNROLL for (int v = 0; v < num_vectors; v++)
            sums[q][v] = splat_bits(0);
    for (int j = 0; j < mixture->count; j += 2) {
        const int last = mixture->count - 1, next = j < last ? j + 1 : last;
        const char *first = mixture->values + mixture->rows[j] * places->row + column;
        const char *second = mixture->values + mixture->rows[next] * places->row + column;
        UNROLL for (int v = 0; v < num_vectors; v += 2) {
            ivec pairs[2];
            load_pairs(first + v * LANES, second + v * LANES, pairs);
            UNROLL for (int q = 0; q < num_queries; q++) {
                int32_t both;
                memcpy(&both, weights[q][v / 2] + j / 2, sizeof both);
                sums[q][v] = add_pairs(sums[q][v], pairs[0], splat_bits(both));
                sums[q][v + 1] = add_pairs(sums[q][v + 1], pairs[1], splat_bits(both));
            }
        }
    }
    UNROLL for (int q = 0; q < num_queries; q++)
        UNROLL for (int v = 0; v < num_vectors; v += 2) {
            vec both[2];
            for (int i = 0; i < 2; i++)
                both[i] = __builtin_convertvector(sums[q][v + i], vec);
            in_order(both);
            for (int i = 0; i < 2; i++) {
                float *out = mixture->out + q * width + column + (v + i) * LANES;
                store(out, multiply_add(both[i], splat(steps[q][v / 2]), load(out)));
            }
        }
}

/* Adds weighted values to all columns of some queries; the sums of a step are as many as registers can hold. */
INLINE void mix(enum form form, int num_queries, const struct mixture *mixture) {
    const int64_t width = mixture->num_heads * mixture->places->value_space;
    int64_t column = 0;
    for (int vectors = MOST_VECTORS / num_queries; vectors; vectors /= 2)
        for (; column + vectors * LANES <= width; column += vectors * LANES)
            switch (vectors) { /* constants keep the sums in registers */
#define CASE(vectors)                                                 \
    case vectors:                                                     \
        if (form != INT8)                                             \
            mix_floats(form, num_queries, vectors, mixture, column);  \
        else if (vectors > 1)                                         \
            mix_integers(num_queries, vectors, mixture, column);      \
        break;
                CASE(1) CASE(2) CASE(4) CASE(8)
#if REGISTERS == 32
                CASE(16)
#endif
            }
}

#endif
