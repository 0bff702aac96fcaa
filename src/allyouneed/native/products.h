/* Sums of products in each form. A word of 32 bits holds one float, or as many values as an instruction multiplies and
adds at once; stored values take 4, 2 or 1 byte and may become wider words when they are loaded. */

#ifndef ALLYOUNEED_PRODUCTS_H
#define ALLYOUNEED_PRODUCTS_H

#include "kernels.h"
#include "vector.h"

/* How int8 multiplies queries by keys. Sums are exact. With VNNI, one factor is in unsigned bytes, in which 128 stands
for 0. Without instructions for sums of bytes, both are multiplied in 16 bits. */
#if __AVX512VNNI__ || __AVXVNNI__
#define INT8_DOT 1
enum { INT8_VALUES = 4, INT8_OFFSET = 128 };
#elif HAS_NEON && __ARM_FEATURE_DOTPROD
#define INT8_DOT 1
enum { INT8_VALUES = 4, INT8_OFFSET = 0 };
#else
enum { INT8_VALUES = 2, INT8_OFFSET = 0 };
#endif

/* How int8 multiplies in linear maps: in the same way, but for AVX2 and AVX-512 without VNNI. There `vpmaddubsw`
multiplies unsigned bytes by signed ones and adds pairs of products in 16 bits. They fit, as the weights of a pair add
up to between -128 and 128 steps (255 * 128 < 2^15), and those of opposite signs to less. */
#if (HAS_AVX512 || HAS_AVX2) && !INT8_DOT
enum { ADDS_PAIRS = 1, WEIGHT_VALUES = 4, WEIGHT_OFFSET = 128 };
#else
enum { ADDS_PAIRS = 0, WEIGHT_VALUES = INT8_VALUES, WEIGHT_OFFSET = INT8_OFFSET };
#endif
/* INT8 as linear maps multiply it; never the form of a layer or of a row. */
#define INT8_WEIGHTS ((enum form)NUM_FORMS)
enum { MOST_INT8 = 127, MOST_INT16 = 32767 };
#if BFLOAT16_DOT
enum { BFLOAT16_VALUES = 2 };
#else
enum { BFLOAT16_VALUES = 1 }; /* bfloat16 in memory, float32 in registers */
#endif

INLINE int64_t values_in_word(enum form form) {
    return form == FLOAT32 ? 1 : form == BFLOAT16 ? BFLOAT16_VALUES : form == INT8 ? INT8_VALUES : WEIGHT_VALUES;
}

/* Bytes of a word as stored. */
INLINE int64_t bytes_in_word(enum form form) {
    return form == FLOAT32 ? 4 : form == BFLOAT16 ? 2 * BFLOAT16_VALUES : values_in_word(form);
}

/* A vector of words, from stored values. */
INLINE ivec load_words(enum form form, const char *from) {
    ivec words;
    if (bytes_in_word(form) == 4)
        memcpy(&words, from, sizeof words);
    else if (form == BFLOAT16)
        words = (ivec)load_bfloat16(from);
    else {
#if HAS_AVX512
        words = (ivec)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
#elif HAS_AVX2
        words = (ivec)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
#elif HAS_NEON
        words = (ivec)vmovl_s8(vld1_s8((const int8_t *)from));
#else
        int16_t pairs[2 * LANES];
        for (int i = 0; i < 2 * LANES; i++)
            pairs[i] = ((const int8_t *)from)[i];
        memcpy(&words, pairs, sizeof words);
#endif
    }
    return words;
}

/* Adds the products of two pairs of 16-bit integers to the sum in each lane. */
INLINE ivec add_pairs(ivec sum, ivec x, ivec weight) {
#if HAS_AVX512 && __AVX512VNNI__
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
    return sum;
#elif HAS_AVX512
    return (ivec)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)x, (__m512i)weight));
#elif HAS_AVX2 && __AVXVNNI__
    return (ivec)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)weight);
#elif HAS_AVX2
    return (ivec)_mm256_add_epi32((__m256i)sum, _mm256_madd_epi16((__m256i)x, (__m256i)weight));
#elif HAS_NEON
    int16x8_t left = (int16x8_t)x, right = (int16x8_t)weight;
    int32x4_t low = vmull_s16(vget_low_s16(left), vget_low_s16(right)), high = vmull_high_s16(left, right);
    return sum + (ivec)vpaddq_s32(low, high);
#else
    /* The low and the high half of each word, as signed numbers. */
    return sum + ((x << 16) >> 16) * ((weight << 16) >> 16) + (x >> 16) * (weight >> 16);
#endif
}

/* Adds the products of the values of two words to the sum in each lane. */
INLINE ivec add_products(enum form form, ivec sum, ivec x, ivec weight) {
#if HAS_AVX512 || HAS_AVX2 /* in assembly, because GCC copies registers where it sees integers become floats */
    if (form == FLOAT32 || (form == BFLOAT16 && BFLOAT16_VALUES == 1)) {
        __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
        return sum;
    }
#else
    if (form != INT8 && form != INT8_WEIGHTS)
        return (ivec)multiply_add((vec)x, (vec)weight, (vec)sum);
#endif
#if BFLOAT16_DOT
    if (form == BFLOAT16)
        return (ivec)add_bfloat16_products((vec)sum, (vec)x, (vec)weight);
#endif
#if HAS_AVX512 && !INT8_DOT
    if (form == INT8_WEIGHTS)
        return add_pairs(sum, (ivec)_mm512_maddubs_epi16((__m512i)x, (__m512i)weight), splat_bits(0x10001));
#elif HAS_AVX2 && !INT8_DOT
    if (form == INT8_WEIGHTS)
        return add_pairs(sum, (ivec)_mm256_maddubs_epi16((__m256i)x, (__m256i)weight), splat_bits(0x10001));
#endif
#if HAS_AVX512 && INT8_DOT
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
    return sum;
#elif HAS_AVX2 && INT8_DOT
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)weight);
#elif HAS_NEON && INT8_DOT
    return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)weight);
#else
    return add_pairs(sum, x, weight);
#endif
}

/* Rounds a row to bfloat16, ties to even; a NaN stays one. */
INLINE float round_row_bfloat16(const float *x, int64_t num_inputs, int32_t *words) {
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        vec value = load_first(x + k, num_inputs - k, 0);
#if BFLOAT16_DOT
        __m256bh rounded = _mm512_cvtneps_pbh(value);
        memcpy(words + k / 2, &rounded, sizeof rounded);
#else
        store((float *)words + k, to_bfloat16(value));
#endif
    }
    return 1;
}

/* The number of steps of max|x| / most in 1, and the step size; 0 steps where all are tiny. */
INLINE float steps_of(const float *x, int64_t num_inputs, float most, float *step) {
    ivec largest = splat_bits(0); /* bits of max|x|; compared as integers, NaN is the largest */
    for (int64_t k = 0; k < num_inputs; k += LANES)
        largest = larger_integers((ivec)load_first(x + k, num_inputs - k, 0) & 0x7fffffff, largest);
    int32_t bits = 0;
    for (int i = 0; i < LANES; i++)
        bits = largest[i] > bits ? largest[i] : bits;
    float value;
    memcpy(&value, &bits, sizeof value);
    *step = value / most;
    return value < 1e-30f ? 0 : most / value; /* never infinite */
}

/* Rounds a row to at most `most` steps in 16 bits, also in place; zeros fill up the last vector. Returns the step
size. */
INLINE float round_row_int16(const float *x, int64_t num_inputs, float most, char *to) {
    float step, steps = steps_of(x, num_inputs, most, &step);
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        ivec whole = nearest(load_first(x + k, num_inputs - k, 0) * splat(steps));
        shorts narrow = __builtin_convertvector(whole, shorts);
        memcpy(to + 2 * k, &narrow, sizeof narrow);
    }
    return step;
}

/* Rounds values to bytes and adds an offset; zeros fill up `space`. Returns the step size. */
INLINE float round_to_bytes(const float *x, int64_t width, int64_t space, int offset, char *to) {
    float step, steps = steps_of(x, width, MOST_INT8, &step);
    for (int64_t k = 0; k < space; k += LANES)
        store_bytes(to + k, nearest(load_first(x + k, width - k, 0) * splat(steps)), offset);
    return step;
}

/* Rounds a row to steps, to be multiplied by weights. Returns the step size. */
INLINE float round_row_int8(const float *x, int64_t num_inputs, int32_t *words) {
    if (WEIGHT_VALUES == 2)
        return round_row_int16(x, num_inputs, MOST_INT8, (char *)words);
    return round_to_bytes(x, num_inputs, num_inputs, WEIGHT_OFFSET, (char *)words);
}

#endif
