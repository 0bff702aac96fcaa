"""What the encoders and decoders of models compute in float64, with queries, keys and values in a form."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tests.native.references import NEAR_A_TIE, STACK, mixed, random, rounded
from tests.tiny import TinyModel
from torch import Tensor, nn

from allyouneed.config.model import Role
from allyouneed.inference.beams import NOTHING, Beams, SearchRules
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, NEVER_PRODUCED, START, UNKNOWN

VOCAB_SIZE, D_MODEL = 11, 20
LENGTHS, SOURCE_LENGTHS = (9, 1, 5), (4, 7, 2)
"""Of the sentences that are read together, and of the memory of each."""
MAX_LENGTHS = np.array([6, 2, 8])
"""Of the sentences that are searched."""
LEAST_LENGTHS = np.array([3, 0, 5])
BEAM_SIZE, NUM_STEPS = 3, 7
SCORE_BOUND = 1e-4
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm and GELU": {"norm": "pre", "activation": "gelu"},
    "ALiBi and swish": {"positions": "alibi", "activation": "swish"},
    "rotary positions": {"positions": "rotary"},
    "zeros first": {"decoder_start": "zeros", "norm": "pre"},
    "recurrent units": {"autoregression": "ssru", "num_decoder_layers": 3, "scaled_embeddings": False},
    "pre-norm and recurrent units": {"autoregression": "ssru", "norm": "pre", "activation": "swish"},
}
"""Name -> settings of the model."""


class Step(NamedTuple):
    """What a step of beam search returns."""

    parents: NDArray[np.int64]
    done: NDArray[np.bool_]


class StackReference:
    """The model of a variant, and the hidden states of its sentences: they are the same for all kernels."""

    def __init__(self, variant: str, model: Transformer) -> None:
        self.variant, self.model = variant, model
        self._exact = copy.deepcopy(model).double()
        self._search: tuple[list[Step], Beams] | None = None
        self._known: dict[tuple[Role, str], tuple[Tensor, float]] = {}

    def expected(self, role: Role, form: str) -> tuple[Tensor, float]:
        """The hidden states of a stack that rounds queries, keys and values, and an absolute bound.

        Where some are so near to a tie that float32 may round them differently, so may the reference. What is
        not rounded at all is further away than the bound.
        """
        if (role, form) not in self._known:
            self._known[role, form] = self._compared(role, form)
        return self._known[role, form]

    def keys_values(self) -> list[Tensor]:
        """Those of the memories, for each layer of the decoder."""
        layers = cast("Sequence[DecoderLayer]", self._exact.decoder)
        return [layer.cross_attention.key_value(memories().double()).float() for layer in layers]

    def searched(self) -> tuple[list[Step], Beams]:
        """Steps of a beam search in float64, and its state after them."""
        if self._search is None:
            self._search = self._searched()
        return self._search

    def _searched(self) -> tuple[list[Step], Beams]:
        beams, rules = first_beams()
        return [Step(*beams.advance(*self._choices(beams, rules), rules)) for _ in range(NUM_STEPS)], beams

    def _choices(self, beams: Beams, rules: SearchRules) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The best next tokens of each hypothesis; they cannot end before `LEAST_LENGTHS`.

        Rounding decides nothing: the scores of all candidates differ by more than it does.
        """
        self._attend("float64", 0)
        shape = *beams.scores.shape, rules.num_candidates
        log_probs, tokens = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int64)
        each = memories().double().split(SOURCE_LENGTHS)
        for sentence, beam in zip(*(beams.scores > NOTHING).nonzero(), strict=True):
            ids = torch.tensor([START, *beams.written()[sentence, beam]])
            of_last = self._exact.project(self._decode(ids, each[sentence])[-1]).log_softmax(dim=-1)
            of_last[[*NEVER_PRODUCED, *([END] if len(ids) < LEAST_LENGTHS[sentence] else [])]] = -torch.inf
            found = of_last.sort(descending=True, stable=True)
            log_probs[sentence, beam], tokens[sentence, beam] = (part[: shape[2]] for part in found)
        for scores in (beams.scores[:, :, None] + log_probs).reshape(shape[0], -1):
            between = np.diff(np.sort(scores[scores > NOTHING])).min(initial=np.inf)
            assert between > SCORE_BOUND, f"{self.variant}: {between}"
        return log_probs, tokens

    def _compared(self, role: Role, form: str) -> tuple[Tensor, float]:
        shifts = 0, -NEAR_A_TIE, NEAR_A_TIE
        expected, low, high = (self._hidden_states(role, form, shift) for shift in shifts)
        bound = STACK["atol"] + 2 * max((other - expected).abs().max().item() for other in (low, high))
        if form != "float32":
            distance = (self._hidden_states(role, "float64", 0) - expected).abs().max()
            assert distance > 3 * bound, f"{self.variant}, {form}, {role}: {distance} {bound}"
        return expected, bound

    def _attend(self, form: str, shift: float) -> None:
        for module in self._exact.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                module.attend = partial(_attend_rounded, module.plain, form, shift)

    def _hidden_states(self, role: Role, form: str, shift: float) -> Tensor:
        self._attend(form, shift)
        return torch.cat(self._encoded() if role == "source" else self._decoded())

    def _encoded(self) -> list[Tensor]:
        return [self._exact.encode(ids[None])[0] for ids in sentences(first=None)]

    def _decoded(self) -> list[Tensor]:
        each = zip(sentences(first=START), memories().double().split(SOURCE_LENGTHS), strict=True)
        return [self._decode(ids, memory) for ids, memory in each]

    def _decode(self, ids: Tensor, memory: Tensor) -> Tensor:
        mask = torch.ones(1, 1, 1, len(memory), dtype=torch.bool)
        return self._exact.decode(ids[None], memory[None], mask)[0]


@torch.no_grad()
def stack_references(tiny_model: TinyModel) -> list[StackReference]:
    """One of each variant."""
    references = []
    for variant, settings in VARIANTS.items():
        sizes = {"d_model": D_MODEL, "num_heads": 5, "d_k": 4, "d_v": 3}
        model = tiny_model(vocab_size=VOCAB_SIZE, **sizes, **settings).eval()
        for name, parameter in model.named_parameters():
            if "norm." in name:
                nn.init.normal_(parameter)
        references.append(StackReference(variant, model))
    return references


def first_beams() -> tuple[Beams, SearchRules]:
    """The state of a search at its start, and its rules."""
    penalties = np.arange(1 + MAX_LENGTHS.max(), dtype=np.float64) ** 0.6
    return Beams.of(MAX_LENGTHS, BEAM_SIZE, n_best=2), SearchRules(2 * BEAM_SIZE, penalties, native=False)


def sentences(first: int | None) -> list[Tensor]:
    """Random ids, of which some begin with `first`."""
    draw = torch.Generator().manual_seed(5)
    drawn = [torch.randint(UNKNOWN, VOCAB_SIZE, (length,), generator=draw) for length in LENGTHS]
    if first is not None:
        for ids in drawn:
            ids[0] = first
    return drawn


def memories() -> Tensor:
    """What the decoder attends to, one sentence after the other."""
    return random(sum(SOURCE_LENGTHS), D_MODEL, seed=2)


def _attend_rounded(
    plain: nn.Module, form: str, shift: float, query: Tensor, key: Tensor, value: Tensor, mask: Any
) -> Tensor:
    """Attention of rounded queries to rounded keys and values, shifted by a share of the largest before."""
    query, key, value = (part + shift * part.abs().amax(dim=-1, keepdim=True) for part in (query, key, value))
    one_by_one = torch.eye(value.size(-2), dtype=value.dtype).expand(*value.shape[:-1], -1)
    weights: Tensor = plain(rounded(query, form), rounded(key, form), one_by_one, mask)
    return mixed(weights, value, form, shift)[0]
