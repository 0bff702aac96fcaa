/* Stores keys and values in rows. */

#include "kernels.h"
#include "stored_rows.h"

int row_words(const struct heads *heads) {
    return (int)(places_of(heads).row / (int64_t)sizeof(float));
}

INLINE void store_row(
    enum form form, const struct heads *heads, const struct places *places, const float *keys_values, char *row) {
    const int num_heads = heads->num_heads, d_k = heads->d_k, d_v = heads->d_v;
    const int64_t key_space = places->key_space, value_space = places->value_space;
    const float *values = keys_values + num_heads * d_k;
    float *steps = (float *)(row + places->steps);
    for (int head = 0; head < num_heads; head++) {
        char *key = row + head * bytes_of(form, key_space);
        char *value = row + places->values + head * bytes_of(form, value_space);
        float key_step = store_head(form, keys_values + head * d_k, d_k, key_space, INT8_OFFSET, key);
        float value_step = store_head(form, values + head * d_v, d_v, value_space, 0, value);
        if (form == INT8) {
            steps[head] = key_step;
            steps[num_heads + head] = value_step;
        }
    }
}

void store_keys_values(
    const struct heads *heads, int64_t num_rows, const float *keys_values, int64_t stride, float *rows) {
    const struct places places = places_of(heads);
    char *to = (char *)rows;
    for (int64_t row = 0; row < num_rows; row++, keys_values += stride, to += places.row)
        switch (heads->form) {
        case FLOAT32: store_row(FLOAT32, heads, &places, keys_values, to); break;
        case BFLOAT16: store_row(BFLOAT16, heads, &places, keys_values, to); break;
        default: store_row(INT8, heads, &places, keys_values, to);
        }
}
