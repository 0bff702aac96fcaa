/* Vector operations shared by the kernels, on sixteen floats at a time (AVX-512F). */

#ifndef ALLYOUNEED_VECTOR_H
#define ALLYOUNEED_VECTOR_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define VECTOR __attribute__((target("avx512f,avx512dq")))
#define LANES 16

VECTOR static inline __mmask16 first_lanes(int64_t count) {
    return count >= LANES ? 0xFFFF : (__mmask16)((1u << count) - 1);
}

VECTOR static inline __m512 loaded_or(const float *from, __mmask16 some, float other) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(other), some, from);
}

/* e^x for x <= 0 to about 2 units in the last place; 0 below -87.

x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts; e^r by its Taylor polynomial of degree 7, with a
remainder below 2^-27; n is then added to the exponent. */
VECTOR static inline __m512 exponential(__m512 x) {
    __mmask16 tiny = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_LT_OQ);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504089f)), _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 sum = _mm512_set1_ps(1.0f / 5040);
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 720));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 120));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    return _mm512_mask_blend_ps(tiny, _mm512_scalef_ps(sum, n), _mm512_setzero_ps());
}

#endif
