"""Cases of `search.c`; the reference is the numpy form of `Beams.advance`."""

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tests.native.cases import Address, Case

from allyouneed.inference.beams import Beams, SearchRules
from allyouneed.symbols import END, UNKNOWN

NUM_STEPS, NUM_CHOSEN = 12, 5
MAX_LENGTHS = np.array([4, 12, 20])
_VALUES = np.array([-0.5, -1.0, -1.0, -2.0, -np.inf, np.nan], np.float32)
_FIELDS = {
    "score": torch.float64,
    "log_prob": torch.float32,
    **dict.fromkeys(("token", "parent", "length"), torch.int64),
}


def search_cases() -> list[Case]:
    return [
        advance_case(beam_size, n_best, early_stopping=early_stopping)
        for beam_size, n_best in ((1, 1), (4, 1), (4, 3), (5, 5))
        for early_stopping in (False, True)
    ]


def advance_case(beam_size: int, n_best: int, *, early_stopping: bool) -> Case:
    """Steps of three sentences of different lengths, with ties, impossible candidates and some that end."""
    case = Case(f"advance_beams {beam_size} {n_best}{' early' * early_stopping}")
    draw = np.random.default_rng(beam_size + n_best)
    penalties = np.arange(1 + MAX_LENGTHS.max(), dtype=np.float64) ** 0.6
    rules = SearchRules(2 * beam_size if beam_size > 1 else 1, penalties, early_stopping, native=False)
    beams = Beams.of(MAX_LENGTHS, beam_size, n_best)
    shape = *beams.scores.shape, NUM_CHOSEN
    structure, state = beams_structure(case, beams, rules)
    beams = copy.deepcopy(beams)
    for _ in range(NUM_STEPS):
        log_probs, tokens = draw.choice(_VALUES, shape), draw.integers(UNKNOWN, UNKNOWN + 5, shape)
        tokens[draw.random(shape) < 0.1] = END
        given = NUM_CHOSEN, _array(case, log_probs), _array(case, tokens)
        parents, done = case.room(shape[0] * beam_size, torch.int64), case.room(shape[0], torch.uint8)
        case.call("advance_beams", structure, *given, parents, done)
        expected_parents, expected_done = beams.advance(log_probs, tokens, rules)
        expect_array(case, parents, expected_parents)
        expect_array(case, done, expected_done.view(np.uint8))
    expect_beams(case, state, beams)
    return case


def beams_structure(case: Case, beams: Beams, rules: SearchRules) -> tuple[Address, dict[str, Address]]:
    """`struct beams`, and the copies of the arrays of `beams` that it points to."""
    state = {
        entry.name: _array(case, getattr(beams, entry.name))
        for entry in dataclasses.fields(beams)
        if entry.init
    }
    num_sentences, beam_size, num_positions = beams.tokens.shape
    structure = case.structure(
        "beams",
        num_sentences=num_sentences,
        beam_size=beam_size,
        n_best=beams.finished.shape[1],
        num_positions=num_positions,
        num_candidates=rules.num_candidates,
        end=END,
        early_stopping=rules.early_stopping,
        penalties=_array(case, rules.penalties),
        **state,
    )
    return structure, state


def expect_beams(case: Case, state: dict[str, Address], beams: Beams, bound: float = 0.0) -> None:
    """Expect the arrays of `beams`, with scores and log-probabilities within a bound."""
    for name, address in state.items():
        if name == "finished":
            _expect_finished(case, address, beams.finished, bound)
        else:
            expect_array(case, address, getattr(beams, name), bound)


def _array(case: Case, array: NDArray[Any]) -> Address:
    return case.tensor(torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy()))


def expect_array(case: Case, address: Address, array: NDArray[Any], bound: float = 0.0) -> None:
    """Expect an array, with numbers of floating point within a bound."""
    expected = torch.from_numpy(array)
    case.expect(address, expected, bound if expected.is_floating_point() else 0.0, expected.dtype)


def _expect_finished(case: Case, address: Address, finished: NDArray[Any], bound: float) -> None:
    """Field by field, as there is unused space between them."""
    for i, hypothesis in enumerate(finished.ravel()):
        for name, dtype in _FIELDS.items():
            offset = finished[name].ctypes.data - finished.ctypes.data
            place = address + (i * finished.dtype.itemsize + offset)
            near = bound if dtype.is_floating_point else 0.0
            case.expect(place, torch.tensor([hypothesis[name].item()], dtype=dtype), near, dtype)
