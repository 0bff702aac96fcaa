/* Gradients in training: their sum over micro-batches, and the last step of the loss's own. */

#include "forms.h"
#include "kernels.h"
#include "threads.h"
#include "vector.h"

enum { BLOCK = 1 << 14 }; /* values that a thread takes at a time */

void accumulate(int64_t num_values, const void *values, float *sums, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t first = 0; first < num_values; first += BLOCK) {
        int64_t last = first + BLOCK < num_values ? first + BLOCK : num_values;
        for (int64_t i = first; i < last; i += LANES) {
            vec added = load_of(BFLOAT16, values, i, last - i, 0);
            store_first(sums + i, load_first(sums + i, last - i, 0) + added, last - i);
        }
    }
}

INLINE void difference_row(
    enum form form, int64_t start, int width, const void *values, const float *row, float scale, float *out) {
    for (int i = 0; i < width; i += LANES) {
        vec difference = load_of(form, values, start + i, width - i, 0) - load_first(row + i, width - i, 0);
        store_first(out + start + i, difference * splat(scale), width - i);
    }
}

void scaled_difference(
    int64_t num_rows, int width, int form, const void *values, const float *row, float scale, float *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && !is_forked)
    for (int64_t i = 0; i < num_rows; i++)
        if (form == FLOAT32)
            difference_row(FLOAT32, i * width, width, values, row, scale, out);
        else
            difference_row(BFLOAT16, i * width, width, values, row, scale, out);
}
