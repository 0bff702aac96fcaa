/* Beam search (paper 6.1): a step after the choice of tokens, the same as `Beams.advance` in inference/beams.py, and a
whole one. With few sentences, separate calls would take longer than the arithmetic. */

#include <math.h>
#include <stdlib.h>

#include "kernels.h"

/* A hypothesis that has ended, as `_FINISHED` in inference/beams.py. */
struct finished {
    double score;
    float log_prob;
    int64_t token, parent, length;
};

struct candidate {
    double score;
    float log_prob;
    int64_t token, parent;
};

/* The best candidates of a sentence, best first; among equal scores, the earlier one comes first. */
static int64_t best_candidates(
    const struct beams *beams, const double *scores, int64_t k, const float *log_probs, const int64_t *tokens,
    struct candidate *best) {
    int64_t num_best = 0;
    for (int64_t i = 0; i < beams->beam_size * k; i++) {
        double score = scores[i / k] + log_probs[i];
        if (!(score > -INFINITY)) /* NaN too */
            score = -INFINITY;
        if (num_best == beams->num_candidates && !(score > best[num_best - 1].score))
            continue;
        int64_t place = num_best < beams->num_candidates ? num_best++ : num_best - 1;
        for (; place > 0 && score > best[place - 1].score; place--)
            best[place] = best[place - 1];
        best[place] = (struct candidate){score, log_probs[i], tokens[i], i / k};
    }
    return num_best;
}

static int comes_first(const struct beams *beams, const struct finished *left, const struct finished *right) {
    const int left_ends = left->token == beams->end && left->score > -INFINITY;
    const int right_ends = right->token == beams->end && right->score > -INFINITY;
    return left_ends != right_ends ? left_ends : left->score > right->score;
}

/* Inserts a hypothesis into the finished ones; among equal ones, the older one comes first. */
static void insert(const struct beams *beams, struct finished ended, struct finished *finished) {
    int64_t place = beams->n_best - 1;
    if (!comes_first(beams, &ended, &finished[place]))
        return;
    for (; place > 0 && comes_first(beams, &ended, &finished[place - 1]); place--)
        finished[place] = finished[place - 1];
    finished[place] = ended;
}

/* Makes a candidate the live hypothesis of a beam. */
static void go_on(
    const struct beams *beams, int64_t sentence, int64_t beam, double score, const struct candidate *candidate,
    int64_t *parents) {
    const int64_t hypothesis = sentence * beams->beam_size + beam;
    const int64_t place = hypothesis * beams->num_positions + beams->lengths[sentence];
    beams->scores[hypothesis] = score;
    beams->tokens[place] = candidate->token;
    beams->parents[place] = parents[hypothesis] = candidate->parent;
    beams->log_probs[place] = candidate->log_prob;
}

/* Ends and continues the hypotheses of a sentence. Returns whether it is done. */
static int advance_sentence(
    const struct beams *beams, int64_t sentence, const struct candidate *candidates, int64_t num_candidates,
    int64_t *parents) {
    const int64_t length = ++beams->lengths[sentence], max_length = beams->max_lengths[sentence];
    struct finished *finished = (struct finished *)beams->finished + sentence * beams->n_best;
    int64_t beam = 0;
    for (int64_t i = 0; i < num_candidates; i++) {
        const struct candidate *candidate = &candidates[i];
        if (candidate->token != beams->end && length < max_length) {
            if (beam < beams->beam_size && candidate->score > -INFINITY)
                go_on(beams, sentence, beam++, candidate->score, candidate, parents);
        } else if (candidate->score > -INFINITY) {
            const double score = candidate->score / beams->penalties[length];
            beams->num_ended[sentence] += i < beams->beam_size;
            insert(
                beams, (struct finished){score, candidate->log_prob, candidate->token, candidate->parent, length},
                finished);
        }
    }
    for (int64_t i = 0; i < num_candidates && beam < beams->beam_size; i++) /* what cannot go on fills the beams */
        if (candidates[i].token == beams->end || length >= max_length || !(candidates[i].score > -INFINITY))
            go_on(beams, sentence, beam++, -INFINITY, &candidates[i], parents);
    double *scores = beams->scores + sentence * beams->beam_size;
    const int done = !(scores[0] / beams->penalties[max_length] > finished[beams->n_best - 1].score)
        || (beams->early_stopping && beams->num_ended[sentence] >= beams->beam_size);
    for (int64_t i = 0; done && i < beams->beam_size; i++)
        scores[i] = -INFINITY; /* freezes the results of a sentence that waits to leave */
    return done;
}

int advance_beams(
    const struct beams *beams, int64_t k, const float *log_probs, const int64_t *tokens, int64_t *parents,
    uint8_t *done) {
    struct candidate *candidates = malloc(beams->num_candidates * sizeof *candidates);
    if (!candidates)
        return 0;
    for (int64_t sentence = 0; sentence < beams->num_sentences; sentence++) {
        const int64_t first = sentence * beams->beam_size;
        const int64_t num_candidates = best_candidates(
            beams, beams->scores + first, k, log_probs + first * k, tokens + first * k, candidates);
        done[sentence] = advance_sentence(beams, sentence, candidates, num_candidates, parents);
    }
    free(candidates);
    return 1;
}

/* Lists the last tokens of all hypotheses, and whether those that go on must not end. */
static void list(const struct beams *beams, const uint8_t *cannot_end, int64_t *last_tokens, uint8_t *must_go_on) {
    for (int64_t i = 0; i < beams->num_sentences * beams->beam_size; i++) {
        const int64_t sentence = i / beams->beam_size;
        last_tokens[i] = beams->tokens[i * beams->num_positions + beams->lengths[sentence]];
        if (cannot_end && beams->scores[i] > -INFINITY)
            *must_go_on++ = cannot_end[sentence];
    }
}

/* Moves the k best tokens of each hypothesis that goes on to their places among those of all; the others get none. */
static void spread(const struct beams *beams, int64_t num_read, int64_t k, float *log_probs, int64_t *tokens) {
    for (int64_t i = beams->num_sentences * beams->beam_size - 1; i >= 0; i--) {
        const int goes_on = beams->scores[i] > -INFINITY;
        num_read -= goes_on;
        for (int64_t j = k - 1; j >= 0; j--) {
            log_probs[i * k + j] = goes_on ? log_probs[num_read * k + j] : -INFINITY;
            tokens[i * k + j] = goes_on ? tokens[num_read * k + j] : 0;
        }
    }
}

/* A step; returns the number of tokens read, or 0 if there is not enough memory. */
static int search_step(
    const struct decoding *decoding, int64_t first, const struct beams *beams, const int64_t *excluded,
    int num_excluded, const uint8_t *cannot_end, float *logits, int64_t *parents, uint8_t *done) {
    const struct linear *project = decoding->project;
    const int64_t k = beams->num_candidates < project->num_outputs ? beams->num_candidates : project->num_outputs;
    const int64_t num = beams->num_sentences * beams->beam_size;
    const size_t of_choice = k * (sizeof(int64_t) + sizeof(float)), of_hidden = project->num_inputs * sizeof(float);
    int64_t *tokens = malloc(num * (of_choice + of_hidden + sizeof(uint8_t)));
    if (!tokens)
        return 0;
    float *log_probs = (float *)(tokens + num * k), *hidden = log_probs + num * k;
    uint8_t *must_go_on = (uint8_t *)(hidden + num * project->num_inputs);
    list(beams, cannot_end, tokens, must_go_on);
    const int num_read = read_tokens(decoding, first, tokens, beams->scores, hidden);
    int complete = num_read && linear_forward(project, hidden, num_read, logits);
    if (complete) {
        top_log_probs(
            num_read, (int)project->num_outputs, logits, NULL, excluded, num_excluded, cannot_end ? must_go_on : NULL,
            beams->end, (int)k, log_probs, tokens, project->num_threads);
        spread(beams, num_read, k, log_probs, tokens);
    }
    complete = complete && advance_beams(beams, k, log_probs, tokens, parents, done)
        && reorder_hypotheses(decoding, parents);
    free(tokens);
    return complete ? num_read : 0;
}

/* Counts the sentences that are not done; see the end of `advance_sentence`. */
static int64_t count_searched(const struct beams *beams) {
    int64_t count = 0;
    for (int64_t i = 0; i < beams->num_sentences; i++)
        count += beams->scores[i * beams->beam_size] > -INFINITY;
    return count;
}

int search_steps(
    const struct decoding *decoding, int64_t first, const struct beams *beams, const int64_t *excluded,
    int num_excluded, const uint8_t *cannot_end, int num_steps, float *logits, int64_t *parents, uint8_t *done) {
    const int64_t num_searched = count_searched(beams);
    int num_read = 0;
    for (int i = 0; i < num_steps && count_searched(beams) == num_searched; i++) {
        const int more = search_step(
            decoding, first + num_read, beams, excluded, num_excluded, cannot_end, logits, parents, done);
        if (!more)
            return 0;
        num_read += more;
    }
    return num_read;
}
