/* Rows of numbers in float32 or bfloat16. */

#ifndef ALLYOUNEED_FORMS_H
#define ALLYOUNEED_FORMS_H

#include "kernels.h"
#include "vector.h"

/* The first `count` values from a place on; the other lanes are `other`. */
INLINE vec load_of(enum form form, const void *values, int64_t place, int64_t count, float other) {
    if (form == FLOAT32)
        return load_first((const float *)values + place, count, other);
    return load_first_bfloat16((const char *)values + 2 * place, count, other);
}

/* Stores the first `count` values from a place on. */
INLINE void store_of(enum form form, void *values, int64_t place, vec v, int64_t count) {
    if (form == FLOAT32)
        store_first((float *)values + place, v, count);
    else
        store_first_bfloat16((char *)values + 2 * place, v, count);
}

#endif
