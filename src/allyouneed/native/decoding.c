/* Hypotheses that a decoder writes: the tokens that a step reads, and the rows of keys and values that each of them
attends to. Keys and values stay in the row where they were written. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

/* The arrays of `struct tokens`, with room for every hypothesis. */
struct lists {
    int64_t *ids, *positions, *starts, *memory_starts;
    int32_t *counts, *memory_counts;
};

/* Gives the next token of each hypothesis a row, and lists the tokens to read; returns their number. What is left out
is never read again, so any row will do for it. */
static int64_t list_tokens(
    const struct decoding *decoding, int64_t first, const int64_t *tokens, const double *scores,
    const struct lists *lists) {
    const int64_t beam_size = decoding->beam_size;
    int64_t num_read = 0;
    for (int64_t i = 0; i < decoding->num_sentences * beam_size; i++) {
        const int64_t sentence = i / beam_size, position = decoding->positions[sentence];
        const int64_t start = i * decoding->num_positions;
        const int is_read = !scores || scores[i] > -INFINITY;
        decoding->ancestry[start + position] = (int32_t)(first + (is_read ? num_read : 0));
        if (!is_read)
            continue;
        lists->ids[num_read] = tokens[i];
        lists->positions[num_read] = position;
        lists->starts[num_read] = start;
        lists->counts[num_read] = (int32_t)position + 1;
        lists->memory_starts[num_read] = decoding->memory_starts[sentence];
        lists->memory_counts[num_read] = decoding->memory_counts[sentence];
        num_read++;
    }
    return num_read;
}

int read_tokens(
    const struct decoding *decoding, int64_t first, const int64_t *tokens, const double *scores, float *hidden) {
    const int64_t num = decoding->num_sentences * decoding->beam_size;
    int64_t *room = malloc(num * (4 * sizeof(int64_t) + 2 * sizeof(int32_t)));
    if (!room)
        return 0;
    int32_t *counts = (int32_t *)(room + 4 * num);
    const struct lists lists = {room, room + num, room + 2 * num, room + 3 * num, counts, counts + num};
    const int64_t num_read = list_tokens(decoding, first, tokens, scores, &lists);
    const int64_t *positions = lists.positions;
    const struct tokens read = {
        num_read, lists.ids, positions, decoding->encodings, decoding->angles, first,
        {decoding->ancestry, lists.starts, lists.counts, positions, decoding->beam_size},
        {decoding->memory_rows, lists.memory_starts, lists.memory_counts, NULL, decoding->beam_size}};
    const int done = stack_forward(decoding->stack, &read, decoding->tables, decoding->memory, hidden);
    for (int64_t i = 0; done && i < decoding->num_sentences; i++)
        decoding->positions[i]++;
    free(room);
    return done ? (int)num_read : 0;
}

int reorder_hypotheses(const struct decoding *decoding, const int64_t *parents) {
    const int64_t beam_size = decoding->beam_size, num_positions = decoding->num_positions;
    const int64_t of_sentence = beam_size * num_positions;
    int32_t *former = malloc(of_sentence * sizeof *former);
    if (!former)
        return 0;
    for (int64_t i = 0; i < decoding->num_sentences; i++, parents += beam_size) {
        int32_t *ancestry = decoding->ancestry + i * of_sentence;
        const size_t num_bytes = decoding->positions[i] * sizeof *former;
        for (int64_t beam = 0; beam < beam_size; beam++)
            memcpy(former + beam * num_positions, ancestry + beam * num_positions, num_bytes);
        for (int64_t beam = 0; beam < beam_size; beam++)
            memcpy(ancestry + beam * num_positions, former + parents[beam] * num_positions, num_bytes);
    }
    free(former);
    return 1;
}
