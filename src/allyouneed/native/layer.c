/* A layer of the encoder or the decoder (paper 3.1) on the concatenated rows of several sentences. One call replaces
a dozen, because with few rows the calls take longer than the arithmetic. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

/* The part of a sub-layer after f; y may be x. */
static int finish(
    const struct layer *layer, const struct sublayer *sublayer, int64_t num_rows, const float *x, const float *f,
    float *mapped, float *y) {
    if (!linear_forward(sublayer->out, f, num_rows, mapped))
        return 0;
    add_norm(
        num_rows, (int)sublayer->out->num_outputs, x, mapped, sublayer->gains, sublayer->biases, sublayer->epsilon, y,
        layer->threads);
    return 1;
}

int layer_forward(
    const struct layer *layer, int64_t num_rows, const float *x, float *keys_values, int64_t first,
    const struct attended *own, const float *memory, const struct attended *of_memory, float *y) {
    const struct sublayer *self = &layer->self_attention, *cross = &layer->cross_attention;
    const struct sublayer *network = &layer->feed_forward;
    const int heads = layer->heads, d_k = layer->d_k, d_v = layer->d_v, threads = layer->threads;
    const int64_t keys = (int64_t)heads * d_k, values = (int64_t)heads * d_v, both = keys + values;
    const int64_t projected = self->in->num_outputs, hidden = network->in->num_outputs;
    const int64_t widest = projected > hidden ? projected : hidden;
    float *inner = malloc((size_t)num_rows * (widest + values + self->out->num_outputs) * sizeof *inner);
    if (!inner)
        return 0;
    float *mixed = inner + num_rows * widest, *mapped = mixed + num_rows * values;

    int done = linear_forward(self->in, x, num_rows, inner);
    for (int64_t row = 0; done && row < num_rows; row++)
        memcpy(keys_values + (first + row) * both, inner + row * projected + keys, both * sizeof *inner);
    done = done
        && attend(
               num_rows, heads, d_k, d_v, inner, projected, keys_values, both, keys_values + keys, both, own, mixed,
               threads)
        && finish(layer, self, num_rows, x, mixed, mapped, y);
    if (cross->in)
        done = done && linear_forward(cross->in, y, num_rows, inner)
            && attend(
                   num_rows, heads, d_k, d_v, inner, keys, memory, both, memory + keys, both, of_memory, mixed,
                   threads)
            && finish(layer, cross, num_rows, y, mixed, mapped, y);
    done = done && linear_forward(network->in, y, num_rows, inner)
        && finish(layer, network, num_rows, y, inner, mapped, y);
    free(inner);
    return done;
}
