/* y = x W^T + b for the few rows of x in a decoding step, on x86 processors with AVX-512.
 *
 * All data is in 32-bit words; a word holds the values of one k (float32), two (bfloat16) or four (int8). The
 * three forms differ in the instruction that multiplies two vectors of words and adds. W is stored in panels of
 * 32 of its rows, which are columns of y: word 0 of each column, then word 1 of each, and so on.
 *
 * Every element of y is one sum over k in ascending order, in one lane of one register. So the bits of a row
 * of y depend only on W and the same row of x, not on the other rows or the numbers of rows and threads.
 */
#include <stdlib.h>

#include "kernels.h"
#include "vector.h"

enum form { FLOAT32, BFLOAT16, INT8, NUM_FORMS };

#define INLINE static inline __attribute__((always_inline)) VECTOR
#define UNROLL _Pragma("GCC unroll 16")

/* The 12 x 2 sums of a block, the two vectors of a panel and a value of x fit into the 32 registers. */
enum { PANEL_VECTORS = 2, PANEL_COLUMNS = PANEL_VECTORS * LANES, MAX_BLOCK_ROWS = 12 };
enum { PREFETCH_WORDS = 64 }; /* beyond a memory page, where processors do not prefetch by themselves */

/* The rows of x in words of the layer's form. */
struct rows {
    int64_t num_rows;
    int64_t stride; /* words from one row to the next */
    const int32_t *words;
    const float *scale; /* int8 only: step size of each row */
};

INLINE int64_t values_in_word(enum form form)
{
    return form == FLOAT32 ? 1 : form == BFLOAT16 ? 2 : 4;
}

/* In assembly, because compilers accept the last two only if the whole function may use their extensions. */
INLINE __m512i multiply_add(enum form form, __m512i sum, __m512i x, __m512i weight)
{
    if (form == FLOAT32)
        __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
    else if (form == BFLOAT16)
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
    else
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight)); /* x unsigned, weight signed */
    return sum;
}

/* A vector of a row of x from value k on, with zeros after the last value. */
INLINE __m512 load_values(const float *x, int64_t k, int64_t num_inputs)
{
    int64_t left = num_inputs - k;
    return _mm512_maskz_loadu_ps(left < LANES ? (1u << left) - 1 : 0xffff, x + k);
}

VECTOR static float round_row_bfloat16(const float *x, int64_t num_inputs, int32_t *words)
{
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        __m256i rounded;
        __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(load_values(x, k, num_inputs)));
        _mm256_storeu_si256((__m256i *)(words + k / 2), rounded);
    }
    return 1;
}

/* Rounds to steps of max|x| / 127, as unsigned bytes in which 128 represents 0. Returns the step size. */
VECTOR static float round_row_int8(const float *x, int64_t num_inputs, int32_t *words)
{
    __m512i bits = _mm512_setzero_si512(); /* bits of max|x|; compared as integers, NaN is the largest */
    for (int64_t k = 0; k < num_inputs; k += LANES)
        bits = _mm512_max_epi32(bits, (__m512i)_mm512_abs_ps(load_values(x, k, num_inputs)));
    union { int32_t bits; float value; } largest = { _mm512_reduce_max_epi32(bits) };
    __m512 steps = _mm512_set1_ps(largest.value < 1e-30f ? 0 : 127 / largest.value); /* never infinite */
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(load_values(x, k, num_inputs), steps));
        __m128i bytes = _mm_xor_si128(_mm512_cvtsepi32_epi8(rounded), _mm_set1_epi8(-128));
        _mm_storeu_si128((__m128i *)(words + k / 4), bytes);
    }
    return largest.value / 127;
}

/* Writes a vector of y from the sums of 16 columns from `column` on. */
INLINE void write_sums(
    enum form form, __m512i sums, const struct linear *layer, float row_scale, int64_t column, float *y)
{
    int64_t left = layer->num_outputs - column;
    __mmask16 inside = left >= LANES ? 0xffff : left > 0 ? (1u << left) - 1 : 0;
    __m512 value = (__m512)sums;
    if (form == INT8) {
        __m512 scale = _mm512_mul_ps(_mm512_set1_ps(row_scale), _mm512_loadu_ps(layer->scale + column));
        value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, _mm512_loadu_ps(layer->bias + column));
    }
    value = _mm512_max_ps(_mm512_set1_ps(layer->lower_bound), value); /* NaN stays NaN */
    _mm512_mask_storeu_ps(y + column, inside, value);
}

/* Writes a panel's columns of y for `num_rows` rows from `row` on; compiled for each constant `num_rows`. */
INLINE void write_block(
    enum form form, int num_rows, const struct linear *layer, const struct rows *x, int64_t row,
    int64_t panel, float *y)
{
    const int64_t num_words = (layer->num_inputs + values_in_word(form) - 1) / values_in_word(form);
    const int64_t column = panel * PANEL_COLUMNS, stride = x->stride;
    const __m512i *weight = (const __m512i *)layer->weight + panel * num_words * PANEL_VECTORS;
    const int32_t *start = (const int32_t *)layer->start + column, *words = x->words + row * stride;
    __m512i sums[MAX_BLOCK_ROWS][PANEL_VECTORS];

    UNROLL for (int r = 0; r < num_rows; r++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
            sums[r][v] = _mm512_loadu_si512(start + v * LANES);

    for (int64_t k = 0; k < num_words; k++, weight += PANEL_VECTORS) {
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
            _mm_prefetch((const char *)(weight + PREFETCH_WORDS * PANEL_VECTORS + v), _MM_HINT_T0);
        UNROLL for (int r = 0; r < num_rows; r++) {
            __m512i value = _mm512_set1_epi32(words[r * stride + k]);
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
                sums[r][v] = multiply_add(form, sums[r][v], value, _mm512_loadu_si512(weight + v));
        }
    }

    UNROLL for (int r = 0; r < num_rows; r++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            float scale = form == INT8 ? x->scale[row + r] : 1, *y_row = y + (row + r) * layer->num_outputs;
            write_sums(form, sums[r][v], layer, scale, column + v * LANES, y_row);
        }
}

/* Writes a panel's columns of y for all rows, in blocks of almost equal size. */
INLINE void write_panel(
    enum form form, const struct linear *layer, const struct rows *x, int64_t panel, float *y)
{
    const int64_t num_blocks = (x->num_rows + MAX_BLOCK_ROWS - 1) / MAX_BLOCK_ROWS;
    for (int64_t block = 0; block < num_blocks; block++) {
        int64_t row = block * x->num_rows / num_blocks;
        switch ((block + 1) * x->num_rows / num_blocks - row) {
#define CASE(rows) case rows: write_block(form, rows, layer, x, row, panel, y); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        }
    }
}

#define PANEL_WRITER(name, form) \
    VECTOR static void name(const struct linear *layer, const struct rows *x, int64_t panel, float *y) \
    { \
        write_panel(form, layer, x, panel, y); \
    }
PANEL_WRITER(write_panel_float32, FLOAT32)
PANEL_WRITER(write_panel_bfloat16, BFLOAT16)
PANEL_WRITER(write_panel_int8, INT8)

static const struct kernel {
    float (*round_row)(const float *x, int64_t num_inputs, int32_t *words);
    void (*write_panel)(const struct linear *layer, const struct rows *x, int64_t panel, float *y);
} kernels[NUM_FORMS] = {
    [FLOAT32] = { NULL, write_panel_float32 },
    [BFLOAT16] = { round_row_bfloat16, write_panel_bfloat16 },
    [INT8] = { round_row_int8, write_panel_int8 },
};

int linear_forward(const struct linear *layer, const float *x, int64_t num_rows, float *y)
{
    const struct kernel *kernel = &kernels[layer->form];
    const int64_t num_inputs = layer->num_inputs;
    const int64_t num_panels = (layer->num_outputs + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    struct rows rows = { num_rows, num_inputs, (const int32_t *)x, NULL };
    int32_t *words = NULL;
    float *scale = NULL;
    if (kernel->round_row && num_rows) {
        rows.stride = (num_inputs + LANES - 1) / LANES * LANES / (layer->form == INT8 ? 4 : 2);
        rows.words = words = malloc(num_rows * (rows.stride + 1) * sizeof *words);
        if (!words)
            return 0;
        rows.scale = scale = (float *)(words + num_rows * rows.stride);
    }
#pragma omp parallel num_threads(layer->num_threads)
    {
        if (words) {
#pragma omp for
            for (int64_t row = 0; row < num_rows; row++)
                scale[row] = kernel->round_row(x + row * num_inputs, num_inputs, words + row * rows.stride);
        }
#pragma omp for
        for (int64_t panel = 0; panel < num_panels; panel++)
            kernel->write_panel(layer, &rows, panel, y);
    }
    free(words);
    return 1;
}

/* A bit per form that this processor can run; 0 if it can run none of the kernels. */
int linear_forms(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
        return 0;
    return 1 << FLOAT32 | !!__builtin_cpu_supports("avx512bf16") << BFLOAT16
        | !!__builtin_cpu_supports("avx512vnni") << INT8;
}
