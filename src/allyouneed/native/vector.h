/* The vector operations that the kernels are written in, for the instruction set that the compiler is told to use.

A vector has LANES floats or 32-bit integers. It is a type of the compiler (GCC or Clang), so arithmetic and
comparisons are written as for numbers; what follows are the operations that have no operator. Where an
instruction set has no section of its own, the compiler makes them from loops. Products and sums are fused only by
`multiply_add`: the kernels are compiled with -ffp-contract=off. */

#ifndef ALLYOUNEED_VECTOR_H
#define ALLYOUNEED_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__
#define HAS_AVX512 1
#include <immintrin.h>
#define LANES 16
#define REGISTERS 32
#elif defined __AVX2__ && defined __FMA__
#define HAS_AVX2 1
#include <immintrin.h>
#define LANES 8
#define REGISTERS 16
#elif defined __aarch64__
#define HAS_NEON 1
#include <arm_neon.h>
#define LANES 4
#define REGISTERS 32
#else
#define LANES 4
#define REGISTERS 16
#endif

enum { CACHE_LINE = 64 }; /* bytes */

/* Prefetches a cache line into the second level of the caches. It is used tens of lines later; by then, the first level
would have lost it. */
static inline void prefetch(const char *line) {
    __builtin_prefetch(line, 0, 2);
}

/* Vectors in the sum of a row, which has sixteen parts for every instruction set, because long sums lose digits. */
enum { SUMS = 16 / LANES };

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* The next multiple. */
INLINE int64_t rounded_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES))); /* arithmetic that may wrap around */
typedef int16_t shorts __attribute__((vector_size(2 * LANES)));
typedef int8_t bytes __attribute__((vector_size(LANES)));

INLINE vec load(const float *from) {
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, vec v) {
    memcpy(to, &v, sizeof v);
}

INLINE vec splat(float value) {
    return value - (vec){0};
}

INLINE ivec splat_bits(int32_t value) {
    return value - (ivec){0};
}

/* Lanes of `yes` where `mask` has all bits set, of `no` where it has none. */
INLINE vec chosen(ivec mask, vec yes, vec no) {
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

/* The first `count` floats at `from`; the other lanes are `other`. */
INLINE vec load_first(const float *from, int64_t count, float other) {
    if (count >= LANES)
        return load(from);
#if HAS_AVX512
    return _mm512_mask_loadu_ps(splat(other), (__mmask16)(count > 0 ? (1u << count) - 1 : 0), from);
#else
    float lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = i < count ? from[i] : other;
    return load(lanes);
#endif
}

INLINE void store_first(float *to, vec v, int64_t count) {
    if (count >= LANES)
        store(to, v);
    else if (count > 0) {
#if HAS_AVX512
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), v);
#else
        memcpy(to, &v, count * sizeof *to);
#endif
    }
}

/* The first `count` bytes at `from`, and zeros. */
INLINE bytes load_first_bytes(const char *from, int64_t count) {
    bytes lanes = {0};
    if (count >= LANES)
        memcpy(&lanes, from, sizeof lanes);
#if HAS_AVX512
    else
        lanes = (bytes)_mm_maskz_loadu_epi8((__mmask16)(count > 0 ? (1u << count) - 1 : 0), from);
#else
    else
        for (int i = 0; i < count; i++)
            lanes[i] = from[i];
#endif
    return lanes;
}

/* a * b + c, rounded once where the processor can. */
INLINE vec multiply_add(vec a, vec b, vec c) {
#if HAS_AVX512
    return _mm512_fmadd_ps(a, b, c);
#elif HAS_AVX2
    return _mm256_fmadd_ps(a, b, c);
#elif HAS_NEON
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

/* a * b + c, rounded once, also where the processor does not: slow there. */
INLINE vec multiply_add_exactly(vec a, vec b, vec c) {
#if HAS_AVX512 || HAS_AVX2 || HAS_NEON
    return multiply_add(a, b, c);
#else
    for (int i = 0; i < LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* The larger of two values; b where one of them is NaN. */
INLINE vec larger(vec a, vec b) {
#if HAS_AVX512
    return _mm512_max_ps(a, b);
#elif HAS_AVX2
    return _mm256_max_ps(a, b);
#else
    return chosen((ivec)(a > b), a, b);
#endif
}

/* The larger of two integers. */
INLINE ivec larger_integers(ivec a, ivec b) {
#if HAS_AVX512
    return (ivec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif HAS_AVX2
    return (ivec)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    ivec above = a > b;
    return (a & above) | (b & ~above);
#endif
}

INLINE float sum_of(vec v) {
#if HAS_AVX512
    return _mm512_reduce_add_ps(v);
#else
    float lanes[LANES];
    store(lanes, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
#endif
}

INLINE float largest_of(vec v) {
    float lanes[LANES];
    store(lanes, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

/* The sums of four vectors. */
INLINE void four_sums(const vec v[4], float sums[4]) {
#if HAS_AVX512 || HAS_AVX2
    __m256 halves[4];
    for (int j = 0; j < 4; j++)
#if HAS_AVX512
        halves[j] = _mm256_add_ps(_mm512_castps512_ps256(v[j]), _mm512_extractf32x8_ps(v[j], 1));
#else
        halves[j] = v[j];
#endif
    __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(halves[0], halves[1]), _mm256_hadd_ps(halves[2], halves[3]));
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
#else
    for (int j = 0; j < 4; j++)
        sums[j] = sum_of(v[j]);
#endif
}

/* The sums of four vectors of integers, written as words. */
INLINE void four_whole_sums(const ivec v[4], void *sums) {
#if HAS_AVX512
    __m512i x[4], halves[2];
    for (int j = 0; j < 4; j++)
        x[j] = (__m512i)v[j];
    for (int j = 0; j < 2; j++)
        halves[j] = _mm512_add_epi32(
            _mm512_unpacklo_epi32(x[2 * j], x[2 * j + 1]), _mm512_unpackhi_epi32(x[2 * j], x[2 * j + 1]));
    __m512i quarters = _mm512_add_epi32(
        _mm512_unpacklo_epi64(halves[0], halves[1]), _mm512_unpackhi_epi64(halves[0], halves[1]));
    __m256i pairs = _mm256_add_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64(quarters, 1));
#elif HAS_AVX2
    __m256i pairs = _mm256_hadd_epi32(
        _mm256_hadd_epi32((__m256i)v[0], (__m256i)v[1]), _mm256_hadd_epi32((__m256i)v[2], (__m256i)v[3]));
#endif
#if HAS_AVX512 || HAS_AVX2
    _mm_storeu_si128(
        (__m128i *)sums, _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
#else
    int32_t found[4] = {0};
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < LANES; i++)
            found[j] += v[j][i];
    memcpy(sums, found, sizeof found);
#endif
}

/* A bit for each lane above a limit. */
INLINE uint32_t lanes_above(vec v, float limit) {
#if HAS_AVX512
    return _mm512_cmp_ps_mask(v, splat(limit), _CMP_GT_OQ);
#elif HAS_AVX2
    return (uint32_t)_mm256_movemask_ps((__m256)(v > splat(limit)));
#else
    ivec above = v > splat(limit);
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++)
        bits |= (uint32_t)(above[i] & 1) << i;
    return bits;
#endif
}

/* The sum with it, 1.5 * 2^23, has the nearest integer to a value between -2^21 and 2^21 in its low bits, ties to even:
its last place is 1. */
static const float INTEGER_SHIFT = 12582912.0f;

/* The nearest integers, ties to even, of values between -2^21 and 2^21. */
INLINE ivec nearest(vec v) {
    return (ivec)(v + splat(INTEGER_SHIFT)) - (ivec)splat(INTEGER_SHIFT);
}

/* Rounded to bfloat16, ties to even: the low 16 bits become 0. A NaN stays one. */
INLINE vec to_bfloat16(vec v) {
    uvec bits = (uvec)v, rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
    return (vec)((ivec)chosen((ivec)(v == v), (vec)rounded, (vec)quiet) & splat_bits(~0xffff));
}

/* Adds the products of both pairs of bfloat16 values in each word to the sum in each lane. */
#if HAS_AVX512 && __AVX512BF16__
#define BFLOAT16_DOT 1
INLINE vec add_bfloat16_products(vec sum, vec x, vec y) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y)); /* GCC copies registers for the intrinsic */
    return sum;
}
#endif

/* LANES values in bfloat16 as floats. */
INLINE vec load_bfloat16(const char *from) {
    shorts halves;
    memcpy(&halves, from, sizeof halves);
    return (vec)(__builtin_convertvector(halves, ivec) << 16);
}

/* The first `count` values in bfloat16 at `from` as floats; the other lanes are `other`. */
INLINE vec load_first_bfloat16(const char *from, int64_t count, float other) {
    if (count >= LANES)
        return load_bfloat16(from);
#if HAS_AVX512
    __mmask16 first = (__mmask16)(count > 0 ? (1u << count) - 1 : 0);
    __m512i halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, from));
    return _mm512_mask_blend_ps(first, splat(other), (vec)_mm512_slli_epi32(halves, 16));
#else
    vec v = splat(other);
    for (int i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        v[i] = value;
    }
    return v;
#endif
}

/* Stores the first `count` values, rounded to bfloat16. */
INLINE void store_first_bfloat16(char *to, vec v, int64_t count) {
    shorts halves = __builtin_convertvector((ivec)to_bfloat16(v) >> 16, shorts);
    if (count >= LANES)
        memcpy(to, &halves, sizeof halves); /* of a constant size: not a call */
    else if (count > 0) {
#if HAS_AVX512
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)halves);
#else
        memcpy(to, &halves, 2 * count);
#endif
    }
}

/* Stores integers as signed bytes plus an offset of 0 or 128. */
INLINE void store_bytes(char *to, ivec integers, int offset) {
    bytes narrow = __builtin_convertvector(integers, bytes) ^ (int8_t)offset;
    memcpy(to, &narrow, sizeof narrow);
}

/* e^x for x <= 0 to about 2 units in the last place; 0 below -87.

x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts; e^r by its Taylor polynomial of degree 7, with a
remainder below 2^-27; n is then added to the exponent. */
INLINE vec exponential(vec x) {
    vec one = splat(1.0f), shifted = x * splat(1.44269504089f) + splat(INTEGER_SHIFT);
    vec n = shifted - splat(INTEGER_SHIFT);
    vec r = multiply_add(n, splat(-0.693359375f), x);
    r = multiply_add(n, splat(2.12194440e-4f), r);
    vec sum = splat(1.0f / 5040);
    sum = multiply_add(sum, r, splat(1.0f / 720));
    sum = multiply_add(sum, r, splat(1.0f / 120));
    sum = multiply_add(sum, r, splat(1.0f / 24));
    sum = multiply_add(sum, r, splat(1.0f / 6));
    sum = multiply_add(sum, r, splat(0.5f));
    sum = multiply_add(sum, r, one);
    sum = multiply_add(sum, r, one);
    vec power = (vec)((uvec)one + ((uvec)shifted << 23)); /* no power where x < -87 */
    return chosen((ivec)(x < splat(-87.0f)), splat(0.0f), sum * power);
}

#endif
