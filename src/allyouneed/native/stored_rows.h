/* Rows of keys and values, as they are stored.

A row holds the keys of all heads of a token and then the values. Each key is filled up with zeros to whole vectors of
words, each value to whole vectors of values, in int8 to an even number of them. In int8, the step sizes of keys and
values of each head lie between them, and keys have the offset that the instructions want. */

#ifndef ALLYOUNEED_STORED_ROWS_H
#define ALLYOUNEED_STORED_ROWS_H

#include "forms.h"
#include "kernels.h"
#include "products.h"
#include "vector.h"

enum { NUM_STEPS = 2 }; /* step sizes of each head in int8 */

/* Bytes of some values. */
INLINE int64_t bytes_of(enum form form, int64_t num_values) {
    return num_values * bytes_in_word(form) / values_in_word(form);
}

/* Where things are in a row, computed once because divisions are slow. */
struct places {
    int64_t key_space, value_space; /* number of values of a head, with zeros */
    int64_t key_words;              /* of a head of a query */
    int64_t steps, values, row;     /* bytes from the start of a row to its step sizes, its values, and its end */
};

static struct places places_of(const struct heads *heads) {
    const int64_t of_vector = LANES * values_in_word(heads->form), num_heads = heads->num_heads;
    const int64_t key_space = rounded_up(heads->d_k, of_vector);
    const int64_t value_space = rounded_up(heads->d_v, heads->form == INT8 ? 2 * LANES : LANES);
    const int64_t steps = num_heads * bytes_of(heads->form, key_space);
    const int64_t of_steps = heads->form == INT8 ? NUM_STEPS * num_heads * (int64_t)sizeof(float) : 0;
    const int64_t values = of_steps ? rounded_up(steps + of_steps, CACHE_LINE) : steps;
    const int64_t end = values + num_heads * bytes_of(heads->form, value_space);
    return (struct places){
        key_space, value_space, key_space / values_in_word(heads->form), steps, values, rounded_up(end, CACHE_LINE)};
}

/* Stores a head's key or value, filled up with zeros; in int8 with an offset. Returns its step size. */
INLINE float store_head(enum form form, const float *from, int64_t width, int64_t space, int offset, char *to) {
    if (form == INT8)
        return round_to_bytes(from, width, space, offset, to);
    for (int64_t i = 0; i < space; i += LANES)
        store_of(form, to, i, load_first(from + i, width - i, 0), LANES);
    return 1;
}

#endif
