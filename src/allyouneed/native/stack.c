/* The encoder and the decoder (paper 3.1) on the concatenated tokens of several sentences, from ids to hidden states.
One call replaces dozens, because with few tokens the calls take longer than the arithmetic. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "threads.h"
#include "vector.h"

/* Memory for a layer's intermediate results. */
struct space {
    float *normed; /* (num_tokens, d_model) */
    float *inner;  /* (num_tokens, widest output of a first map) */
    float *mixed;  /* (num_tokens, heads * d_v) */
    float *mapped; /* (num_tokens, d_model) */
};

static float of_bfloat16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static void embed(const struct stack *stack, const struct tokens *tokens, float *x) {
    const int d_model = stack->d_model;
    for (int64_t row = 0; row < tokens->num_tokens; row++, x += d_model) {
        const int64_t id = tokens->ids[row] == stack->alias ? stack->original : tokens->ids[row];
        const float *embedding = (const float *)stack->embeddings + id * d_model;
        const uint16_t *bits = (const uint16_t *)stack->embeddings + id * d_model;
        const float *encoding = tokens->encodings ? tokens->encodings + tokens->positions[row] * d_model : NULL;
        const float scale = id == stack->zero_token ? 0 : stack->embedding_scale;
        for (int i = 0; i < d_model; i++)
            x[i] = (stack->in_bfloat16 ? of_bfloat16(bits[i]) : embedding[i]) * scale + (encoding ? encoding[i] : 0);
    }
}

/* The input of a sub-layer's first map: x, or its norm. */
static const float *input_of(
    const struct stack *stack, const struct sublayer *sublayer, int64_t num_tokens, const float *x, float *normed) {
    if (!stack->pre_norm)
        return x;
    add_norm(num_tokens, stack->d_model, x, NULL, &sublayer->norm, normed, stack->threads);
    return normed;
}

/* Adds the result of a sub-layer to x, with the norm where it comes last. */
static void add_result(
    const struct stack *stack, const struct sublayer *sublayer, int64_t num_tokens, const float *mapped, float *x) {
    if (!stack->pre_norm)
        add_norm(num_tokens, stack->d_model, x, mapped, &sublayer->norm, x, stack->threads);
    else {
#pragma omp parallel for num_threads(stack->threads) schedule(static) if (stack->threads > 1 && !is_forked)
        for (int64_t i = 0; i < num_tokens * stack->d_model; i++)
            x[i] += mapped[i];
    }
}

/* Adds the last map of a sub-layer to x. */
static int finish(
    const struct stack *stack, const struct sublayer *sublayer, int64_t num_tokens, const float *before,
    float *mapped, float *x) {
    if (!linear_forward(sublayer->out, before, num_tokens, mapped))
        return 0;
    add_result(stack, sublayer, num_tokens, mapped, x);
    return 1;
}

static int attend_to_self(
    const struct stack *stack, const struct sublayer *sublayer, const struct tokens *tokens, float *table,
    const struct space *space, float *x) {
    const struct heads *heads = &stack->heads;
    const int64_t num_tokens = tokens->num_tokens, width = sublayer->in->num_outputs;
    const float *read = input_of(stack, sublayer, num_tokens, x, space->normed);
    if (!linear_forward(sublayer->in, read, num_tokens, space->inner))
        return 0;
    if (tokens->angles) { /* queries and keys */
        const struct turn turn = {
            2 * heads->num_heads, heads->d_k, width, width, tokens->positions, tokens->angles, 0};
        turn_pairs(&turn, num_tokens, FLOAT32, space->inner, space->inner, stack->threads);
    }
    store_keys_values(
        heads, num_tokens, space->inner + heads->num_heads * heads->d_k, width,
        table + tokens->first * row_words(heads));
    return attend(heads, num_tokens, space->inner, width, table, &tokens->own, space->mixed, stack->threads)
        && finish(stack, sublayer, num_tokens, space->mixed, space->mapped, x);
}

/* Reads tokens with a recurrent unit. A token's cell is its row of the table; that of the token before it, the last
but one of the rows that attention would read, has been written already. */
static int recur_over_tokens(
    const struct stack *stack, const struct sublayer *sublayer, const struct tokens *tokens, float *table,
    const struct space *space, float *x) {
    const int64_t num_tokens = tokens->num_tokens, d_model = stack->d_model, stride = row_words(&stack->heads);
    const struct attended *own = &tokens->own;
    const float *read = input_of(stack, sublayer, num_tokens, x, space->normed);
    if (!linear_forward(sublayer->in, read, num_tokens, space->inner))
        return 0;
    for (int64_t token = 0; token < num_tokens; token++) {
        const int32_t count = own->counts[token];
        const float *before = count > 1 ? table + own->rows[own->starts[token] + count - 2] * stride : NULL;
        recur(
            stack->d_model, space->inner + token * 2 * d_model, before, table + (tokens->first + token) * stride,
            space->mapped + token * d_model);
    }
    add_result(stack, sublayer, num_tokens, space->mapped, x);
    return 1;
}

static int attend_to_memory(
    const struct stack *stack, const struct sublayer *sublayer, const struct tokens *tokens, const float *memory,
    const struct space *space, float *x) {
    const int64_t num_tokens = tokens->num_tokens;
    const float *read = input_of(stack, sublayer, num_tokens, x, space->normed);
    return linear_forward(sublayer->in, read, num_tokens, space->inner)
        && attend(
               &stack->cross_heads, num_tokens, space->inner, sublayer->in->num_outputs, memory, &tokens->of_memory, space->mixed,
               stack->threads)
        && finish(stack, sublayer, num_tokens, space->mixed, space->mapped, x);
}

static int feed_forward(
    const struct stack *stack, const struct sublayer *sublayer, int64_t num_tokens, const struct space *space,
    float *x) {
    const float *read = input_of(stack, sublayer, num_tokens, x, space->normed);
    if (!linear_forward(sublayer->in, read, num_tokens, space->inner))
        return 0;
    if (stack->activation != RELU)
        activate(stack->activation, num_tokens * sublayer->in->num_outputs, space->inner, stack->threads);
    return finish(stack, sublayer, num_tokens, space->inner, space->mapped, x);
}

static int64_t widest_of(const struct stack *stack) {
    int64_t widest = 0;
    for (int32_t i = 0; i < stack->num_layers; i++) {
        const struct layer *layer = &stack->layers[i];
        const struct linear *maps[] = {layer->self_attention.in, layer->cross_attention.in, layer->feed_forward.in};
        for (int m = 0; m < 3; m++)
            if (maps[m] && maps[m]->num_outputs > widest)
                widest = maps[m]->num_outputs;
    }
    return widest;
}

int stack_forward(
    const struct stack *stack, const struct tokens *tokens, float **tables, const float **memory, float *hidden) {
    const int64_t num_tokens = tokens->num_tokens, d_model = stack->d_model, widest = widest_of(stack);
    const int64_t own = (int64_t)stack->heads.num_heads * stack->heads.d_v;
    const int64_t crossing = (int64_t)stack->cross_heads.num_heads * stack->cross_heads.d_v;
    const int64_t values = own > crossing ? own : crossing;
    float *numbers = malloc((size_t)num_tokens * (2 * d_model + widest + values) * sizeof *numbers);
    if (!numbers)
        return 0;
    float *inner = numbers + num_tokens * 2 * d_model;
    struct space space = {numbers, inner, inner + num_tokens * widest, numbers + num_tokens * d_model};
    embed(stack, tokens, hidden);
    int done = 1;
    for (int32_t i = 0; done && i < stack->num_layers; i++) {
        const struct layer *layer = &stack->layers[i];
        const struct sublayer *first = &layer->self_attention;
        done = first->out ? attend_to_self(stack, first, tokens, tables[i], &space, hidden)
                          : recur_over_tokens(stack, first, tokens, tables[i], &space, hidden);
        if (tokens->queries && i == tokens->layer) {
            const struct sublayer *cross = &layer->cross_attention;
            const float *read = input_of(stack, cross, num_tokens, hidden, space.normed);
            done = done && linear_forward(cross->in, read, num_tokens, tokens->queries);
            break;
        }
        if (layer->cross_attention.in)
            done = done && attend_to_memory(stack, &layer->cross_attention, tokens, memory[i], &space, hidden);
        done = done && feed_forward(stack, &layer->feed_forward, num_tokens, &space, hidden);
    }
    if (stack->norm.gains)
        add_norm(num_tokens, stack->d_model, hidden, NULL, &stack->norm, hidden, stack->threads);
    free(numbers);
    return done;
}
