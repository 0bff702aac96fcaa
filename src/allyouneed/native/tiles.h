/* Sums of products by matrix tiles (AMX): 16 rows of x by 16 columns of W, 16 words at a time.

A tile is a register of 16 rows of 64 bytes. One instruction multiplies a tile of x by a tile of W and adds all products
to a tile of sums; rows do not influence one another. */

#ifndef ALLYOUNEED_TILES_H
#define ALLYOUNEED_TILES_H

#include <stdint.h>

#include "kernels.h"
#include "products.h"
#include "vector.h"

enum { TILE_ROWS = 16, TILE_WORDS = 16, TILE_BYTES = 64, MAX_TILE_ROWS = 2 * TILE_ROWS };

/* The tiles of a thread; none have a shape at first. */
struct tiles {
    int64_t num_rows; /* of x, for which they have their shapes */
};

#if __AMX_TILE__ && __AMX_INT8__ && __AMX_BF16__
/* Whether products in a form are computed by tiles. */
INLINE int takes_tiles(enum form form) {
    return form != FLOAT32;
}

/* The operand of `ldtilecfg`. */
struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_shapes) == 64, "ldtilecfg reads 64 bytes");
_Static_assert(WEIGHT_VALUES == 4 && WEIGHT_OFFSET == 128 && BFLOAT16_VALUES == 2, "words are as tiles multiply them");

/* Gives the tiles their shapes: 0 to 3 for sums, 4 and 5 for x, 6 and 7 for W. This is slow. */
INLINE void shape_tiles(struct tiles *tiles, int upper, int lower) {
    if (tiles->num_rows == upper + lower)
        return;
    tiles->num_rows = upper + lower;
    struct tile_shapes shapes = { .palette = 1 };
    const int rows[8] = { upper, upper, lower, lower, upper, lower, TILE_ROWS, TILE_ROWS };
    for (int tile = 0; tile < 8; tile++) {
        shapes.rows[tile] = (uint8_t)rows[tile];
        shapes.row_bytes[tile] = rows[tile] ? TILE_BYTES : 0;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); /* of GCC 12's intrinsic, only 8 bytes are an operand */
}

/* Leaves the tiles, so that the system need not save them. */
INLINE void release_tiles(struct tiles *tiles) {
    if (tiles->num_rows)
        _tile_release();
}

#define ADD_PRODUCTS(form, sums, x, weight) \
    do { \
        if (form == BFLOAT16) \
            _tile_dpbf16ps(sums, x, weight); \
        else \
            _tile_dpbusd(sums, x, weight); \
    } while (0)

/* Writes the sums of up to MAX_TILE_ROWS rows of x by two tiles of W's columns, as words of 32 bits.

`stride` is the number of words from one row of x to the next, `num_words` a multiple of TILE_WORDS. */
INLINE void multiply_tiles(
    enum form form, struct tiles *tiles, int64_t num_rows, const int32_t *x, int64_t stride, const char *weight,
    int64_t num_words, int32_t *sums) {
    const int upper = (int)(num_rows > TILE_ROWS ? (num_rows + 1) / 2 : num_rows), lower = (int)num_rows - upper;
    const int64_t of_weight = 2 * TILE_BYTES, of_x = stride * (int64_t)sizeof *x;
    __asm__ volatile("" : : : "memory"); /* GCC's intrinsics do not say that they read x and W */
    shape_tiles(tiles, upper, lower);
    _tile_zero(0);
    _tile_zero(1);
    if (lower) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < num_words; k += TILE_WORDS, x += TILE_WORDS, weight += TILE_WORDS * of_weight) {
        _tile_loadd(6, weight, of_weight);
        _tile_loadd(7, weight + TILE_BYTES, of_weight);
        _tile_loadd(4, x, of_x);
        ADD_PRODUCTS(form, 0, 4, 6);
        ADD_PRODUCTS(form, 1, 4, 7);
        if (lower) {
            _tile_loadd(5, x + upper * stride, of_x);
            ADD_PRODUCTS(form, 2, 5, 6);
            ADD_PRODUCTS(form, 3, 5, 7);
        }
    }
    _tile_stored(0, sums, of_weight);
    _tile_stored(1, sums + TILE_WORDS, of_weight);
    if (lower) {
        _tile_stored(2, sums + upper * 2 * TILE_WORDS, of_weight);
        _tile_stored(3, sums + (2 * upper + 1) * TILE_WORDS, of_weight);
    }
}
#undef ADD_PRODUCTS
#else
INLINE int takes_tiles(enum form form) {
    return 0;
}

INLINE void release_tiles(struct tiles *tiles) {}

INLINE void multiply_tiles(
    enum form form, struct tiles *tiles, int64_t num_rows, const int32_t *x, int64_t stride, const char *weight,
    int64_t num_words, int32_t *sums) {}
#endif

#endif
