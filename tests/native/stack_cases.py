"""Cases of `stack.c`; the references are encoders and decoders of models in float64."""

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from tests.native.attention_cases import attended_fields, heads_fields, room_for_rows, stored
from tests.native.cases import Address, Case
from tests.native.driver import Target
from tests.native.linear_cases import linear_structure
from tests.native.places import Widths
from tests.native.references import NEAR_A_TIE, STACK, mixed, random, rounded
from tests.tiny import TinyModel
from torch import Tensor, nn

from allyouneed.inference.native_layers import PositionTables
from allyouneed.model import Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.embedding import Role
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import DecoderLayer, EncoderLayer, Residual
from allyouneed.model.relative_positions import LinearBiases
from allyouneed.model.ssru import SSRU
from allyouneed.native.library import FORMS
from allyouneed.native.stack import ACTIVATIONS
from allyouneed.symbols import START, UNKNOWN

VOCAB_SIZE, D_MODEL = 11, 20
LENGTHS, SOURCE_LENGTHS = (9, 1, 5), (4, 7, 2)
"""Of the sentences that are read together, and of the memory of each."""
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


def stack_cases(target: Target, tiny_model: TinyModel) -> list[Case]:
    cases = []
    for variant, settings in VARIANTS.items():
        sizes = {"d_model": D_MODEL, "num_heads": 5, "d_k": 4, "d_v": 3}
        model = tiny_model(vocab_size=VOCAB_SIZE, **sizes, **settings).eval()
        for name, parameter in model.named_parameters():
            if "norm." in name:
                nn.init.normal_(parameter)
        for form in FORMS:
            built = StackCase(target, model, variant, form)
            cases += [built.encoder(), built.decoder()]
    return cases


class StackCase:
    """The encoder and the decoder of a model, with keys and values in a form, beside their references."""

    def __init__(self, target: Target, model: Transformer, variant: str, form: str) -> None:
        self._target, self._model, self._form = target, model, form
        self._name = f"{variant}, {form}"
        self._exact = copy.deepcopy(model).double()
        attention = cast("EncoderLayer", model.encoder[0]).self_attention
        self._widths = Widths(attention.num_heads, attention.d_k, attention.d_v)

    @torch.no_grad()
    def encoder(self) -> Case:
        """Sentences read together, one token of each in turn, or all of one and then all of the next."""
        case = Case(f"stack_forward of the encoder: {self._name}")
        packed = self._stack(case, "source")
        sentences = _sentences(LENGTHS, first=None)
        starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
        own = [
            list(range(start, start + n)) for start, n in zip(starts, LENGTHS, strict=True) for _ in range(n)
        ]
        hidden, tables = self._room(case, "source", sum(LENGTHS))
        tokens = self._tokens(case, "source", torch.cat(sentences), _positions(), 0, own, group=8)
        case.call("stack_forward", packed, tokens, case.pointers(tables), None, hidden)
        self._expect(case, hidden, lambda exact: [exact.encode(ids[None])[0] for ids in sentences])
        return case

    @torch.no_grad()
    def decoder(self) -> Case:
        """Tokens attend to the past and the memory; one by one and all at once have the same bits."""
        case = Case(f"stack_forward of the decoder: {self._name}")
        packed, layers = self._stack(case, "target"), cast("Sequence[DecoderLayer]", self._exact.decoder)
        sentences, memories = _sentences(LENGTHS, first=START), random(sum(SOURCE_LENGTHS), D_MODEL, seed=2)
        of_memory = case.pointers([self._memory(case, layer, memories) for layer in layers])
        own, read, ids = [], [], torch.cat(sentences)
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
        parts = list(zip(sentences, memories.double().split(SOURCE_LENGTHS), strict=True))

        def reference(exact: Transformer) -> list[Tensor]:
            return [
                exact.decode(ids[None], memory[None], torch.ones(1, 1, 1, len(memory), dtype=torch.bool))[0]
                for ids, memory in parts
            ]

        self._expect(case, by_token[0], reference)
        for left, right in zip([by_token[0], *by_token[1]], [at_once[0], *at_once[1]], strict=True):
            case.expect_same_bits(left, right)
        return case

    def _expect(self, case: Case, hidden: Address, reference: Any) -> None:
        """Expect the hidden states of a reference that rounds queries, keys and values, and not of another.

        Where some are so near to a tie that float32 may round them differently, so may the reference.
        """

        def hidden_states(form: str, shift: float) -> Tensor:
            for module in self._exact.modules():
                if isinstance(module, SelfAttention | CrossAttention):
                    module.attend = partial(_attend_rounded, module.plain, form, shift)
            return torch.cat(reference(self._exact))

        expected, low, high = (hidden_states(self._form, shift) for shift in (0, -NEAR_A_TIE, NEAR_A_TIE))
        bound = STACK["atol"] + 2 * max((other - expected).abs().max().item() for other in (low, high))
        if self._form != "float32":
            distance = (hidden_states("float64", 0) - expected).abs().max()
            assert distance > 3 * bound, f"{case.name}: {distance} {bound}"
        case.expect_close(hidden, expected, atol=bound, rtol=STACK["rtol"])

    def _room(self, case: Case, role: Role, num_rows: int) -> tuple[Address, list[Address]]:
        """Memory for hidden states and for a table of each layer."""
        rows = case, self._target, *self._stored(role), num_rows
        tables = [room_for_rows(*rows) for _ in self._layers(role)]
        return case.room(num_rows * self._model.config.d_model), tables

    def _memory(self, case: Case, layer: DecoderLayer, memories: Tensor) -> Address:
        keys_values = layer.cross_attention.key_value(memories.double()).float()
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
        tables = PositionTables(self._model, role).covering(max(LENGTHS))
        added = {"encodings": tables.encodings, "angles": tables.angles}
        return case.structure(
            "tokens",
            num_tokens=len(ids),
            ids=case.tensor(ids),
            positions=case.tensor(positions),
            first=first,
            own=attended_fields(case, own, group, positions),
            of_memory={} if of_memory is None else attended_fields(case, of_memory, group),
            **{
                name: case.tensor(table[: max(LENGTHS)]) for name, table in added.items() if table is not None
            },
        )

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


def _sentences(lengths: Sequence[int], first: int | None) -> list[Tensor]:
    """Random ids, of which some begin with `first`."""
    draw = torch.Generator().manual_seed(5)
    sentences = [torch.randint(UNKNOWN, VOCAB_SIZE, (length,), generator=draw) for length in lengths]
    if first is not None:
        for ids in sentences:
            ids[0] = first
    return sentences


def _positions() -> Tensor:
    return torch.cat([torch.arange(length) for length in LENGTHS])


def _attend_rounded(
    plain: nn.Module, form: str, shift: float, query: Tensor, key: Tensor, value: Tensor, mask: Any
) -> Tensor:
    """Attention of rounded queries to rounded keys and values, shifted by a share of the largest before."""
    query, key, value = (part + shift * part.abs().amax(dim=-1, keepdim=True) for part in (query, key, value))
    one_by_one = torch.eye(value.size(-2), dtype=value.dtype).expand(*value.shape[:-1], -1)
    weights: Tensor = plain(rounded(query, form), rounded(key, form), one_by_one, mask)
    return mixed(weights, value, form, shift)[0]
