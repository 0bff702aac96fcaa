/* y = x W^T + b for the few rows of x in a decoding step.

A word holds the values of one k (float32), or of as many as an instruction multiplies and adds at once. W is stored in
panels of PANEL_COLUMNS of its rows, which are columns of y: word 0 of each column, then word 1 of each, and so on.

Every element of y is one sum, in an order that depends only on K and the form. So the bits of a row of y depend only on
W and the same row of x, not on the other rows or the numbers of rows and threads. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "products.h"
#include "threads.h"
#include "tiles.h"
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
#if HAS_AVX512
_Static_assert(PANEL_COLUMNS == 2 * TILE_WORDS, "a panel is two tiles wide");
#endif
enum { PREFETCH_BYTES = 8192 }; /* beyond a memory page, where processors do not prefetch by themselves */

/* The rows of x in words of 32 bits. */
struct rows {
    int64_t num_rows;
    int64_t stride; /* words from one row to the next */
    const int32_t *words;
    const float *scale; /* int8 only: step size of each row */
};

INLINE int64_t words_at_once(enum form form) {
    return takes_tiles(form) ? TILE_WORDS : 1;
}

/* Words of a column of W. */
INLINE int64_t words_of(enum form form, int64_t num_inputs) {
    return rounded_up(num_inputs, values_in_word(form) * words_at_once(form)) / values_in_word(form);
}

/* How weights in a form are multiplied. */
INLINE enum form form_of_weights(enum form form) {
    return form == INT8 ? INT8_WEIGHTS : form;
}

void layout_of(int form, struct layout *layout) {
    const enum form of_weights = form_of_weights(form);
    *layout = (struct layout){
        PANEL_COLUMNS, (int32_t)values_in_word(of_weights), (int32_t)words_at_once(of_weights), WEIGHT_OFFSET,
        form == INT8 && ADDS_PAIRS};
}

/* The weights of a panel. */
INLINE const char *panel_of(enum form form, const struct linear *layer, int64_t panel) {
    const int64_t num_words = words_of(form, layer->num_inputs);
    return (const char *)layer->weight + panel * num_words * PANEL_COLUMNS * bytes_in_word(form);
}

/* Writes a vector of y from the sums of its columns, from `column` on. */
INLINE void write_sums(
    enum form form, ivec sums, const struct linear *layer, float row_scale, int64_t column, float *y) {
    vec value = (vec)sums;
    if (form == INT8_WEIGHTS) {
        vec scale = splat(row_scale) * load(layer->scale + column);
        value = multiply_add_exactly(__builtin_convertvector(sums, vec), scale, load(layer->bias + column));
    }
    store_first(y + column, larger(splat(layer->lower_bound), value), layer->num_outputs - column);
}

/* Writes a panel's columns of y for `num_rows` rows from `row` on; compiled for each constant `num_rows`. */
INLINE void write_block(
    enum form form, int num_rows, const struct linear *layer, const struct rows *x, int64_t row, int64_t panel,
    float *y) {
    const int64_t num_words = words_of(form, layer->num_inputs);
    const int64_t column = panel * PANEL_COLUMNS, stride = x->stride, of_vector = LANES * bytes_in_word(form);
    const char *weight = panel_of(form, layer, panel);
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
                prefetch(weight + PREFETCH_BYTES + v * of_vector);
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
            float scale = form == INT8_WEIGHTS ? x->scale[row + r] : 1, *y_row = y + (row + r) * layer->num_outputs;
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

/* Writes a panel's columns of y for all rows by tiles; unlike above, the initial value is added last. Blocks have the
same size, so that tiles keep their shapes, but for the last one. */
INLINE void write_panel_by_tiles(
    enum form form, const struct linear *layer, const struct rows *x, int64_t panel, struct tiles *tiles, float *y) {
    const int64_t num_words = words_of(form, layer->num_inputs), column = panel * PANEL_COLUMNS;
    const int64_t num_blocks = (x->num_rows + MAX_TILE_ROWS - 1) / MAX_TILE_ROWS;
    const int64_t of_block = num_blocks ? (x->num_rows + num_blocks - 1) / num_blocks : 0; /* the last has less */
    int32_t sums[MAX_TILE_ROWS * PANEL_COLUMNS] __attribute__((aligned(CACHE_LINE)));
    for (int64_t row = 0; row < x->num_rows; row += of_block) {
        const int64_t num_rows = x->num_rows - row < of_block ? x->num_rows - row : of_block;
        multiply_tiles(
            form, tiles, num_rows, x->words + row * x->stride, x->stride, panel_of(form, layer, panel), num_words,
            sums);
        for (int64_t r = 0; r < num_rows; r++)
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
                const int64_t first = column + v * LANES;
                vec start = load((const float *)layer->start + first);
                vec sum = load((const float *)sums + r * PANEL_COLUMNS + v * LANES);
                ivec whole = form == INT8_WEIGHTS ? (ivec)sum + (ivec)start : (ivec)(sum + start);
                float scale = form == INT8_WEIGHTS ? x->scale[row + r] : 1;
                write_sums(form, whole, layer, scale, first, y + (row + r) * layer->num_outputs);
            }
    }
}

#define PANEL_WRITER(name, form) \
    static void name( \
        const struct linear *layer, const struct rows *x, int64_t panel, struct tiles *tiles, float *y) { \
        if (takes_tiles(form)) \
            write_panel_by_tiles(form, layer, x, panel, tiles, y); \
        else \
            write_panel(form, layer, x, panel, y); \
    }
PANEL_WRITER(write_panel_float32, FLOAT32)
PANEL_WRITER(write_panel_bfloat16, BFLOAT16)
PANEL_WRITER(write_panel_int8, INT8_WEIGHTS)

static const struct kernel {
    float (*round_row)(const float *x, int64_t num_inputs, int32_t *words);
    void (*write_panel)(
        const struct linear *layer, const struct rows *x, int64_t panel, struct tiles *tiles, float *y);
} kernels[NUM_FORMS] = {
    [FLOAT32] = { NULL, write_panel_float32 },
    [BFLOAT16] = { round_row_bfloat16, write_panel_bfloat16 },
    [INT8] = { round_row_int8, write_panel_int8 },
};

int linear_forward(const struct linear *layer, const float *x, int64_t num_rows, float *y) {
    const struct kernel *kernel = &kernels[layer->form];
    const enum form form = form_of_weights(layer->form);
    const int64_t num_inputs = layer->num_inputs;
    const int64_t num_panels = (layer->num_outputs + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    struct rows rows = { num_rows, num_inputs, (const int32_t *)x, NULL };
    int64_t written = 0; /* words of a row */
    int32_t *words = NULL;
    float *scale = NULL;
    if (kernel->round_row && num_rows) {
        written = rounded_up(num_inputs, LANES) / values_in_word(form);
        /* Rows of a tile lie a cache line more than the width apart, which is often a power of 2. */
        rows.stride = takes_tiles(form) ? words_of(form, num_inputs) + TILE_WORDS : written;
        const int64_t num_bytes = num_rows * (rows.stride + 1) * (int64_t)sizeof *words;
        rows.words = words = aligned_alloc(CACHE_LINE, rounded_up(num_bytes, CACHE_LINE));
        if (!words)
            return 0;
        rows.scale = scale = (float *)(words + num_rows * rows.stride);
    }
#pragma omp parallel num_threads(layer->num_threads) if (!is_forked)
    {
        struct tiles tiles = {0};
        if (words) {
#pragma omp for
            for (int64_t row = 0; row < num_rows; row++) {
                int32_t *words_of_row = words + row * rows.stride;
                scale[row] = kernel->round_row(x + row * num_inputs, num_inputs, words_of_row);
                memset(words_of_row + written, 0, (rows.stride - written) * sizeof *words);
            }
        }
#pragma omp for
        for (int64_t panel = 0; panel < num_panels; panel++)
            kernel->write_panel(layer, &rows, panel, &tiles, y);
        release_tiles(&tiles);
    }
    free(words);
    return 1;
}
