"""The state of beam search on a device: the steps of `Beams` in tensors, without waiting for the host."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.hardware.machine import wait_for
from allyouneed.inference.beams import NOTHING, Beams, SearchRules
from allyouneed.model.masks import sent
from allyouneed.symbols import END


class TensorBeams:
    """The state of `Beams` for the next steps, in tensors that keep their places.

    `load` sends the state; each `advance` is one step, whose bits are those of `Beams.advance`; `give_back`
    writes the steps into the `Beams`. Of the tables of tokens a step reads nothing but the last tokens, so
    the tables stay with the host. A sentence that has reached its maximum length is done, and stays as it is.

    Args:
        beams: Hypotheses of the shape of those to be loaded.
        rules: Settings of the search.
        most_steps: Maximum number of steps between `load` and `give_back`.
        device: Device of the tensors; it has float64.
    """

    def __init__(self, beams: Beams, rules: SearchRules, most_steps: int, device: torch.device) -> None:
        self.rules, self._device = rules, device
        num_sentences, beam_size = beams.scores.shape
        hypotheses, table = (num_sentences, beam_size), (num_sentences, beam_size, most_steps)
        self.last_tokens = torch.zeros(hypotheses, dtype=torch.int64, device=device)
        """(sentences, beams): the last token of each hypothesis."""
        self.scores = torch.zeros(hypotheses, dtype=torch.float64, device=device)
        self.lengths, self.max_lengths, self.num_ended = torch.zeros(
            3, num_sentences, dtype=torch.int64, device=device
        )
        self.done = torch.zeros(num_sentences, dtype=torch.bool, device=device)
        self._finished = {
            name: torch.zeros_like(_tensor(beams.finished[name]), device=device)
            for name in beams.finished.dtype.names or ()
        }
        self._penalties = sent(_tensor(rules.penalties), device)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._tokens, self._parents = torch.zeros(2, *table, dtype=torch.int64, device=device)
        self._log_probs = torch.zeros(table, device=device)

    def load(self, beams: Beams) -> None:
        """Send the state of these hypotheses, without waiting for the device."""
        state = [
            (beams.last_tokens(), self.last_tokens),
            (beams.scores, self.scores),
            (beams.lengths, self.lengths),
            (beams.max_lengths, self.max_lengths),
            (beams.num_ended, self.num_ended),
            *((beams.finished[name], place) for name, place in self._finished.items()),
        ]
        for array, place in state:
            place.copy_(sent(_tensor(array), self._device))
        self._step.zero_()

    def positions(self) -> Int64[Tensor, " sentences"]:
        """The position of the last token of each sentence, but no more than the last that it may have."""
        positions: Tensor = torch.minimum(self.lengths, self.max_lengths - 1)
        return positions

    def cannot_end(self) -> Bool[Tensor, " sentences"]:
        """Whether the hypotheses are too short to end."""
        too_short: Tensor = self.lengths + 1 < self.rules.min_length
        return too_short

    def advance(
        self, log_probs: Float32[Tensor, "sentences beams k"], tokens: Int64[Tensor, "sentences beams k"]
    ) -> Int64[Tensor, "sentences beams"]:
        """Extend every hypothesis by one token, as `Beams.advance`; return the parents of the new ones."""
        scores = (self.scores[:, :, None] + log_probs).flatten(1)
        scores = scores.masked_fill(~(scores > NOTHING), NOTHING)  # NaN too
        scores, chosen = _best_first(scores, self.rules.num_candidates)
        parents = chosen // tokens.size(2)
        of_token, chosen_tokens = (table.flatten(1).gather(1, chosen) for table in (log_probs, tokens))
        self.lengths.copy_(torch.minimum(self.lengths + 1, self.max_lengths))
        ends = (chosen_tokens == END) | (self.lengths >= self.max_lengths)[:, None]
        self._finish(scores, ends, {"log_prob": of_token, "token": chosen_tokens, "parent": parents})
        going_on, alive = _best_first(scores.masked_fill(ends, NOTHING), self.scores.size(1))
        parents = parents.gather(1, alive)
        self.last_tokens.copy_(chosen_tokens.gather(1, alive))
        self._tokens.index_copy_(2, self._step, self.last_tokens[:, :, None])
        self._parents.index_copy_(2, self._step, parents[:, :, None])
        self._log_probs.index_copy_(2, self._step, of_token.gather(1, alive)[:, :, None])
        self._step += 1
        bound = going_on[:, 0] / self._penalties[self.max_lengths]
        self.done.copy_(~(bound > self._finished["score"][:, -1]))
        if self.rules.early_stopping:
            self.done |= self.num_ended >= self.scores.size(1)
        self.scores.copy_(going_on.masked_fill(self.done[:, None], NOTHING))
        return parents

    def give_back(self, beams: Beams, num_steps: int) -> NDArray[np.bool_]:
        """Write the steps since `load` into its `beams`; return which sentences are done.

        This is where the host waits for the device.
        """
        tables = [table[:, :, :num_steps] for table in (self._tokens, self._parents, self._log_probs)]
        state = [self.scores, self.num_ended, self.done, *self._finished.values()]
        copies = [each.to("cpu", non_blocking=True, copy=True) for each in (*tables, *state)]
        if self._device.type == "cuda":  # not for other streams, on which a step may be captured
            torch.cuda.current_stream(self._device).synchronize()
        else:
            wait_for(self._device)
        arrays: list[NDArray[Any]] = [each.numpy() for each in copies]
        tokens, parents, log_probs, scores, num_ended, done, *finished = arrays
        beams.make_room(num_steps)
        positions = beams.lengths[:, None] + np.arange(1, num_steps + 1)
        sentences, steps = (positions <= beams.max_lengths[:, None]).nonzero()
        taken = positions[sentences, steps]
        beams.tokens[sentences, :, taken] = tokens[sentences, :, steps]
        beams.parents[sentences, :, taken] = parents[sentences, :, steps]
        beams.log_probs[sentences, :, taken] = log_probs[sentences, :, steps]
        np.minimum(beams.lengths + num_steps, beams.max_lengths, out=beams.lengths)
        beams.scores[:], beams.num_ended[:] = scores, num_ended
        for name, field in zip(self._finished, finished, strict=True):
            beams.finished[name] = field
        return done

    def _finish(
        self,
        scores: Float64[Tensor, "sentences candidates"],
        ends: Bool[Tensor, "sentences candidates"],
        new: dict[str, Tensor],
    ) -> None:
        """Merge candidates that end into the finished hypotheses, as `Beams.finish`."""
        ended = ends & (scores > NOTHING)
        self.num_ended += ended[:, : self.scores.size(1)].sum(dim=1)
        normalised = (scores / self._penalties[self.lengths][:, None]).masked_fill(~ends, NOTHING)
        lengths = self.lengths[:, None].expand_as(ends)
        both = {
            name: torch.cat([old, {"score": normalised, "length": lengths, **new}[name]], dim=1)
            for name, old in self._finished.items()
        }
        _, order = both["score"].sort(dim=1, descending=True, stable=True)
        has_end = (both["token"] == END) & (both["score"] > NOTHING)
        _, ended_first = has_end.gather(1, order).int().sort(dim=1, descending=True, stable=True)
        for name, old in self._finished.items():
            old.copy_(both[name].gather(1, order.gather(1, ended_first[:, : old.size(1)])))


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _best_first(
    scores: Float64[Tensor, "sentences candidates"], num_best: int
) -> tuple[Float64[Tensor, "sentences num_best"], Int64[Tensor, "sentences num_best"]]:
    """The best scores of each row and their indices, in descending order; ties go to the lower index."""
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return scores[:, :num_best], order[:, :num_best]
