"""Cases of `stack.c`; the references are encoders and decoders of models in float64."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from tests.native.attention_cases import attended_fields, heads_fields, room_for_rows, stored
from tests.native.cases import Address, Case
from tests.native.driver import Target
from tests.native.linear_cases import linear_structure
from tests.native.places import Widths
from tests.native.references import STACK
from tests.native.search_cases import beams_structure, expect_array, expect_beams
from tests.native.stack_references import (
    BEAM_SIZE,
    D_MODEL,
    LEAST_LENGTHS,
    LENGTHS,
    MAX_LENGTHS,
    NUM_STEPS,
    SCORE_BOUND,
    SOURCE_LENGTHS,
    VOCAB_SIZE,
    StackReference,
    first_beams,
    sentences,
)
from torch import Tensor, nn

from allyouneed.config.model import Role
from allyouneed.inference.native_layers import Packer
from allyouneed.inference.stored_model import StoredModel
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import DecoderLayer, EncoderLayer, Residual
from allyouneed.model.relative_positions import LinearBiases
from allyouneed.model.ssru import SSRU
from allyouneed.native.library import FORMS
from allyouneed.native.stack import ACTIVATIONS
from allyouneed.symbols import NEVER_PRODUCED, START


def stack_cases(target: Target, references: list[StackReference]) -> list[Case]:
    cases = []
    for reference in references:
        for form in FORMS:
            built = StackCase(target, reference, form)
            cases += [built.encoder(), built.decoder()]
        cases.append(StackCase(target, reference, "float32").search())
    return cases


class StackCase:
    """The encoder and the decoder of a model, with keys and values in a form, beside their reference."""

    def __init__(self, target: Target, reference: StackReference, form: str) -> None:
        self._target, self._reference, self._form = target, reference, form
        self._model = reference.model
        self._name = f"{reference.variant}, {form}"
        attention = cast("EncoderLayer", self._model.encoder[0]).self_attention
        self._widths = Widths(attention.num_heads, attention.d_k, attention.d_v)

    @torch.no_grad()
    def encoder(self) -> Case:
        """Sentences read together, one token of each in turn, or all of one and then all of the next."""
        case = Case(f"stack_forward of the encoder: {self._name}")
        packed = self._stack(case, "source")
        starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
        own = [
            list(range(start, start + n)) for start, n in zip(starts, LENGTHS, strict=True) for _ in range(n)
        ]
        hidden, tables = self._room(case, "source", sum(LENGTHS))
        tokens = self._tokens(case, "source", torch.cat(sentences(first=None)), _positions(), 0, own, group=8)
        case.call("stack_forward", packed, tokens, case.pointers(tables), None, hidden)
        self._expect(case, "source", hidden)
        return case

    @torch.no_grad()
    def decoder(self) -> Case:
        """Tokens attend to the past and the memory; one by one and all at once have the same bits."""
        case = Case(f"stack_forward of the decoder: {self._name}")
        packed = self._stack(case, "target")
        of_memory = case.pointers([self._memory(case, both) for both in self._reference.keys_values()])
        own, read, ids = [], [], torch.cat(sentences(first=START))
        for sentence, length in enumerate(LENGTHS):
            start, source = sum(LENGTHS[:sentence]), sum(SOURCE_LENGTHS[:sentence])
            for position in range(length):
                own.append(list(range(start, start + position + 1)))
                read.append(list(range(source, source + SOURCE_LENGTHS[sentence])))
        by_token, at_once = (self._room(case, "target", len(ids)) for _ in range(2))
        tables = case.pointers(by_token[1])
        for i, position in enumerate(_positions()):
            tokens = self._tokens(case, "target", ids[i : i + 1], position[None], i, [own[i]], [read[i]])
            case.call("stack_forward", packed, tokens, tables, of_memory, by_token[0] + 4 * i * D_MODEL)
        tokens = self._tokens(case, "target", ids, _positions(), 0, own, read, group=8)
        case.call("stack_forward", packed, tokens, case.pointers(at_once[1]), of_memory, at_once[0])
        self._expect(case, "target", by_token[0])
        for left, right in zip([by_token[0], *by_token[1]], [at_once[0], *at_once[1]], strict=True):
            case.expect_same_bits(left, right)
        return case

    @torch.no_grad()
    def search(self) -> Case:
        """Steps of a beam search, from last tokens to next ones, against a search in float64."""
        case = Case(f"search_steps: {self._name}")
        beams, rules = first_beams()
        structure, state = beams_structure(case, beams, rules)
        decoding, num_hypotheses = self._decoding(case), beams.scores.size
        never, logits = case.tensor(torch.tensor(NEVER_PRODUCED)), case.room(num_hypotheses * VOCAB_SIZE)
        steps, expected = self._reference.searched()
        for step, (expected_parents, expected_done) in enumerate(steps):
            too_short = case.tensor(torch.from_numpy(step + 1 < LEAST_LENGTHS))
            parents, done = case.room(num_hypotheses, torch.int64), case.room(len(MAX_LENGTHS), torch.uint8)
            chosen = never, len(NEVER_PRODUCED), too_short, 1, logits
            case.call("search_steps", decoding, step * num_hypotheses, structure, *chosen, parents, done)
            expect_array(case, parents, expected_parents)
            expect_array(case, done, expected_done.view(np.uint8))
        expect_beams(case, state, expected, SCORE_BOUND)
        return case

    def _decoding(self, case: Case) -> Address:
        """`struct decoding` at the start of the reference's search."""
        num_sentences, num_rows = len(MAX_LENGTHS), len(MAX_LENGTHS) * BEAM_SIZE * NUM_STEPS
        matrix, layouts = self._model.embeddings.matrix("output"), self._target.layouts
        return case.structure(
            "decoding",
            stack=self._stack(case, "target"),
            project=linear_structure(case, layouts, "float32", matrix, torch.zeros(VOCAB_SIZE)),
            tables=case.pointers(self._room(case, "target", num_rows)[1]),
            memory=case.pointers([self._memory(case, both) for both in self._reference.keys_values()]),
            num_sentences=num_sentences,
            beam_size=BEAM_SIZE,
            num_positions=NUM_STEPS,
            positions=case.tensor(torch.zeros(num_sentences, dtype=torch.int64)),
            ancestry=case.room(num_rows, torch.int32),
            memory_rows=case.tensor(torch.arange(sum(SOURCE_LENGTHS), dtype=torch.int32)),
            memory_starts=case.tensor(torch.tensor([0, *SOURCE_LENGTHS[:-1]]).cumsum(0)),
            memory_counts=case.tensor(torch.tensor(SOURCE_LENGTHS, dtype=torch.int32)),
            **self._added(case, "target", NUM_STEPS),
        )

    def _expect(self, case: Case, role: Role, hidden: Address) -> None:
        expected, bound = self._reference.expected(role, self._form)
        case.expect_close(hidden, expected, atol=bound, rtol=STACK["rtol"])

    def _room(self, case: Case, role: Role, num_rows: int) -> tuple[Address, list[Address]]:
        """Memory for hidden states and for a table of each layer."""
        rows = case, self._target, *self._stored(role), num_rows
        tables = [room_for_rows(*rows) for _ in self._layers(role)]
        return case.room(num_rows * self._model.config.d_model), tables

    def _memory(self, case: Case, keys_values: Tensor) -> Address:
        return stored(case, self._target, self._widths, self._form, keys_values)

    def _tokens(
        self,
        case: Case,
        role: Role,
        ids: Tensor,
        positions: Tensor,
        first: int,
        own: list[list[int]],
        of_memory: list[list[int]] | None = None,
        group: int = 1,
    ) -> Address:
        return case.structure(
            "tokens",
            num_tokens=len(ids),
            ids=case.tensor(ids),
            positions=case.tensor(positions),
            first=first,
            own=attended_fields(case, own, group, positions),
            of_memory={} if of_memory is None else attended_fields(case, of_memory, group),
            **self._added(case, role, max(LENGTHS)),
        )

    def _added(self, case: Case, role: Role, length: int) -> dict[str, Address]:
        """What is added at each position."""
        packer = Packer(StoredModel.of(self._model), "float32", 1)
        tables = packer.positions(role).covering(length)
        each = {"encodings": tables.encodings, "angles": tables.angles}
        return {
            name: case.tensor(torch.from_numpy(table[:length]))
            for name, table in each.items()
            if table is not None
        }

    def _layers(self, role: Role) -> "Sequence[EncoderLayer]":
        stack = self._model.encoder if role == "source" else self._model.decoder
        return cast("Sequence[EncoderLayer]", stack)

    def _stored(self, role: Role) -> tuple[Widths, str]:
        """Widths and form of what a layer stores of the tokens that it reads."""
        if isinstance(self._layers(role)[0].self_attention, SSRU):
            return Widths(1, 0, D_MODEL), "float32"
        return self._widths, self._form

    def _stack(self, case: Case, role: Role) -> Address:
        """`struct stack` with packed float32 weights."""
        config, model = self._model.config, self._model
        layers = self._layers(role)
        own = layers[0].self_attention
        scheme = None if isinstance(own, SSRU) else own.plain.relative
        slopes = scheme.slopes() if isinstance(scheme, LinearBiases) else None
        last = model.encoder_norm if role == "source" else model.decoder_norm
        return case.structure(
            "stack",
            num_layers=len(layers),
            d_model=config.d_model,
            threads=1,
            pre_norm=config.norm == "pre",
            activation=ACTIVATIONS.index(config.activation),
            zero_token=START if role == "target" and config.decoder_start == "zeros" else -1,
            embedding_scale=math.sqrt(config.d_model) if config.scaled_embeddings else 1.0,
            embeddings=case.tensor(model.embeddings.matrix(role)),
            layers=case.structures("layer", [self._layer(case, layer) for layer in layers]),
            norm=_norm(case, last) if isinstance(last, nn.LayerNorm) else {},
            heads=heads_fields(case, *self._stored(role), slopes),
            cross_heads=heads_fields(case, self._widths, self._form),
        )

    def _layer(self, case: Case, layer: EncoderLayer | DecoderLayer) -> dict[str, Any]:
        own, network, crossing = layer.self_attention, layer.feed_forward, {}
        assert isinstance(network, FeedForward)
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            crossing = self._sublayer(case, cross.query, cross.output, layer.after_cross_attention)
        relu = self._model.config.activation == "relu"
        first, last = (_map_of(own), None) if isinstance(own, SSRU) else (own.query_key_value, own.output)
        return {
            "self_attention": self._sublayer(case, first, last, layer.after_self_attention),
            "cross_attention": crossing,
            "feed_forward": self._sublayer(
                case, network.inner, network.outer, layer.after_feed_forward, relu=relu
            ),
        }

    def _sublayer(
        self, case: Case, first: nn.Linear, last: nn.Linear | None, after: Residual, *, relu: bool = False
    ) -> dict[str, Any]:
        layouts = self._target.layouts
        fields = {
            "in": linear_structure(case, layouts, "float32", first.weight, first.bias, relu=relu),
            "norm": _norm(case, after.norm),
        }
        if last is not None:
            fields["out"] = linear_structure(case, layouts, "float32", last.weight, last.bias)
        return fields


def _map_of(unit: SSRU) -> nn.Linear:
    """Gates and candidates of a recurrent unit."""
    both = nn.Linear(D_MODEL, 2 * D_MODEL)
    both.weight.copy_(torch.cat([unit.forget.weight, unit.candidate.weight]))
    both.bias.copy_(torch.cat([unit.forget.bias, torch.zeros(D_MODEL)]))
    return both


def _norm(case: Case, norm: nn.LayerNorm) -> dict[str, Any]:
    return {"gains": case.tensor(norm.weight), "biases": case.tensor(norm.bias), "epsilon": norm.eps}


def _positions() -> Tensor:
    return torch.cat([torch.arange(length) for length in LENGTHS])
