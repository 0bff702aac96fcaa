/* y = x W^T + b for the few rows of x in a decoding step.

A word holds the values of one k (float32), or of as many as an instruction multiplies and adds at once. W is stored in
panels of PANEL_COLUMNS of its rows, which are columns of y: word 0 of each column, then word 1 of each, and so on.

Every element of y is one sum over k in ascending order, in one lane of one register. So the bits of a row of y depend
only on W and the same row of x, not on the other rows or the numbers of rows and threads. */

#include <stdlib.h>

#include "kernels.h"
#include "vector.h"

/* The sums of a block, the vectors of a panel and a value of x fit into the registers. */
#if HAS_AVX512
enum { PANEL_VECTORS = 2, MAX_BLOCK_ROWS = 12 };
#elif HAS_NEON
enum { PANEL_VECTORS = 4, MAX_BLOCK_ROWS = 6 };
#else
enum { PANEL_VECTORS = 2, MAX_BLOCK_ROWS = 6 };
#endif
enum { PANEL_COLUMNS = PANEL_VECTORS * LANES };
enum { CACHE_LINE = 64, PREFETCH_BYTES = 8192 }; /* beyond a memory page, where processors do not prefetch by themselves */

/* How int8 multiplies. Sums are exact everywhere, and so the same. With VNNI, x is in unsigned bytes, in which 128
stands for 0. Without instructions for sums of bytes, x and W are multiplied in 16 bits: `vpmaddubsw` would multiply
bytes, but adds pairs of products in 16 bits, where 2 * 255 * 127 saturates. */
#if __AVX512VNNI__ || __AVXVNNI__
#define INT8_DOT 1
enum { INT8_VALUES = 4, INT8_OFFSET = 128 };
#elif HAS_NEON && __ARM_FEATURE_DOTPROD
#define INT8_DOT 1
enum { INT8_VALUES = 4, INT8_OFFSET = 0 };
#else
enum { INT8_VALUES = 2, INT8_OFFSET = 0 };
#endif
#if HAS_AVX512 && __AVX512BF16__
#define BFLOAT16_DOT 1
enum { BFLOAT16_VALUES = 2 };
#else
enum { BFLOAT16_VALUES = 1 }; /* bfloat16 in memory, float32 in registers */
#endif

/* The rows of x in words of 32 bits. */
struct rows {
    int64_t num_rows;
    int64_t stride; /* words from one row to the next */
    const int32_t *words;
    const float *scale; /* int8 only: step size of each row */
};

INLINE int64_t values_in_word(enum form form) {
    return form == FLOAT32 ? 1 : form == BFLOAT16 ? BFLOAT16_VALUES : INT8_VALUES;
}

void layout_of(int form, struct layout *layout) {
    *layout = (struct layout){PANEL_COLUMNS, (int32_t)values_in_word(form), INT8_OFFSET};
}

/* Bytes of a word of W. */
INLINE int64_t bytes_in_word(enum form form) {
    return form == FLOAT32 ? 4 : form == BFLOAT16 ? 2 * BFLOAT16_VALUES : INT8_VALUES;
}

/* A vector of words of W, in which the instructions of the form read them. */
INLINE ivec load_words(enum form form, const char *from) {
    ivec words;
    if (bytes_in_word(form) == 4)
        memcpy(&words, from, sizeof words);
    else if (form == BFLOAT16) {
        shorts halves;
        memcpy(&halves, from, sizeof halves);
        words = __builtin_convertvector(halves, ivec) << 16;
    } else {
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

/* Adds the products of the values of two words to the sum in each lane. */
INLINE ivec add_products(enum form form, ivec sum, ivec x, ivec weight) {
#if HAS_AVX512 || HAS_AVX2 /* in assembly, because GCC copies registers where it sees integers become floats */
    if (form == FLOAT32 || (form == BFLOAT16 && BFLOAT16_VALUES == 1)) {
        __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
        return sum;
    }
#else
    if (form != INT8)
        return (ivec)multiply_add((vec)x, (vec)weight, (vec)sum);
#endif
#if BFLOAT16_DOT
    if (form == BFLOAT16) {
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
        return sum;
    }
#endif
#if HAS_AVX512 && INT8_DOT
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weight));
    return sum;
#elif HAS_AVX512
    return (ivec)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)x, (__m512i)weight));
#elif HAS_AVX2 && INT8_DOT
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)weight);
#elif HAS_AVX2
    return (ivec)_mm256_add_epi32((__m256i)sum, _mm256_madd_epi16((__m256i)x, (__m256i)weight));
#elif HAS_NEON && INT8_DOT
    return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)weight);
#elif HAS_NEON
    int16x8_t left = (int16x8_t)x, right = (int16x8_t)weight;
    int32x4_t low = vmull_s16(vget_low_s16(left), vget_low_s16(right)), high = vmull_high_s16(left, right);
    return sum + (ivec)vpaddq_s32(low, high);
#else
    /* The low and the high half of each word, as signed numbers. */
    return sum + ((x << 16) >> 16) * ((weight << 16) >> 16) + (x >> 16) * (weight >> 16);
#endif
}

/* Rounds a row to bfloat16, ties to even; a NaN stays one. */
static float round_row_bfloat16(const float *x, int64_t num_inputs, int32_t *words) {
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

/* Rounds a row to steps of max|x| / 127. Returns the step size. */
static float round_row_int8(const float *x, int64_t num_inputs, int32_t *words) {
    ivec largest = splat_bits(0); /* bits of max|x|; compared as integers, NaN is the largest */
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        ivec bits = (ivec)load_first(x + k, num_inputs - k, 0) & 0x7fffffff;
        ivec above = bits > largest;
        largest = (bits & above) | (largest & ~above);
    }
    int32_t most = 0;
    for (int i = 0; i < LANES; i++)
        most = largest[i] > most ? largest[i] : most;
    float value;
    memcpy(&value, &most, sizeof value);
    float steps = value < 1e-30f ? 0 : 127 / value; /* never infinite */
    for (int64_t k = 0; k < num_inputs; k += LANES) {
        vec rounded;
        ivec whole = nearest(load_first(x + k, num_inputs - k, 0) * splat(steps), &rounded);
        if (INT8_VALUES == 4) {
            bytes narrow = __builtin_convertvector(whole, bytes) ^ (int8_t)INT8_OFFSET;
            memcpy((char *)words + k, &narrow, sizeof narrow);
        } else {
            shorts narrow = __builtin_convertvector(whole, shorts);
            memcpy((char *)words + 2 * k, &narrow, sizeof narrow);
        }
    }
    return value / 127;
}

/* Writes a vector of y from the sums of its columns, from `column` on. */
INLINE void write_sums(
    enum form form, ivec sums, const struct linear *layer, float row_scale, int64_t column, float *y) {
    vec value = (vec)sums;
    if (form == INT8) {
        vec scale = splat(row_scale) * load(layer->scale + column);
        value = multiply_add_exactly(__builtin_convertvector(sums, vec), scale, load(layer->bias + column));
    }
    store_first(y + column, larger(splat(layer->lower_bound), value), layer->num_outputs - column);
}

/* Writes a panel's columns of y for `num_rows` rows from `row` on; compiled for each constant `num_rows`. */
INLINE void write_block(
    enum form form, int num_rows, const struct linear *layer, const struct rows *x, int64_t row, int64_t panel,
    float *y) {
    const int64_t num_words = (layer->num_inputs + values_in_word(form) - 1) / values_in_word(form);
    const int64_t column = panel * PANEL_COLUMNS, stride = x->stride, of_vector = LANES * bytes_in_word(form);
    const char *weight = (const char *)layer->weight + panel * num_words * PANEL_VECTORS * of_vector;
    const float *start = (const float *)layer->start + column;
    const int32_t *words = x->words + row * stride;
    ivec sums[MAX_BLOCK_ROWS][PANEL_VECTORS];

    UNROLL for (int r = 0; r < num_rows; r++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
            sums[r][v] = (ivec)load(start + v * LANES);

    for (int64_t k = 0; k < num_words; k++, weight += PANEL_VECTORS * of_vector) {
        ivec weights[PANEL_VECTORS];
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            if (v * of_vector % CACHE_LINE == 0)
                __builtin_prefetch(weight + PREFETCH_BYTES + v * of_vector);
            weights[v] = load_words(form, weight + v * of_vector);
        }
        UNROLL for (int r = 0; r < num_rows; r++) {
            ivec value = splat_bits(words[r * stride + k]);
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
                sums[r][v] = add_products(form, sums[r][v], value, weights[v]);
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
    enum form form, const struct linear *layer, const struct rows *x, int64_t panel, float *y) {
    const int64_t num_blocks = (x->num_rows + MAX_BLOCK_ROWS - 1) / MAX_BLOCK_ROWS;
    for (int64_t block = 0; block < num_blocks; block++) {
        int64_t row = block * x->num_rows / num_blocks;
        switch ((block + 1) * x->num_rows / num_blocks - row) {
#define CASE(rows) case rows: write_block(form, rows, layer, x, row, panel, y); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if HAS_AVX512
            CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
        }
    }
}

#define PANEL_WRITER(name, form) \
    static void name(const struct linear *layer, const struct rows *x, int64_t panel, float *y) { \
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

int linear_forward(const struct linear *layer, const float *x, int64_t num_rows, float *y) {
    const struct kernel *kernel = &kernels[layer->form];
    const int64_t num_inputs = layer->num_inputs;
    const int64_t num_panels = (layer->num_outputs + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    struct rows rows = { num_rows, num_inputs, (const int32_t *)x, NULL };
    int32_t *words = NULL;
    float *scale = NULL;
    if (kernel->round_row && num_rows) {
        rows.stride = (num_inputs + LANES - 1) / LANES * LANES / values_in_word(layer->form);
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
