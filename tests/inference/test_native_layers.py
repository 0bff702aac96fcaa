"""The encoder and the decoder by the kernels against those of the model."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.kernels import require_kernels
from tests.tiny import TinyModel
from torch import Tensor, nn

from allyouneed.config.model import Role
from allyouneed.inference import native_engine, native_layers
from allyouneed.inference.engine import BATCH_TOKENS
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.native_layers import Packer
from allyouneed.inference.stored_model import StoredModel
from allyouneed.model.masks import padding_mask
from allyouneed.model.position_tables import SINUSOIDS
from allyouneed.model.transformer import Transformer
from allyouneed.native.attention_kernels import KeysValues, Rows
from allyouneed.native.stack import PackedStack, Tables
from allyouneed.symbols import END, START

VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "activation": "gelu", "d_k": 5, "d_v": 3},
    {"positions": "alibi", "activation": "swish"},
    {"positions": "rotary", "tied_embeddings": "none"},
    {"positions": "learned", "max_positions": 9},
    {"positions": "concatenated", "decoder_start": "zeros"},
    {"autoregression": "ssru", "num_decoder_layers": 3, "scaled_embeddings": False},
    {"autoregression": "ssru", "norm": "pre"},
    {"autoregression": "ssru", "positions": "rotary"},
    {"autoregression": "ssru", "positions": "alibi"},
    {"positions": "fairseq", "decoder_start": "end", "norm": "pre"},
]
SOURCES, TARGETS = [[5, 6, 7, 9, END], [9, END]], [[START, 8, 4], [START, 7, 7, 7, 5]]
TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture
def build(tiny_model: TinyModel) -> TinyModel:
    """Models with normalisations that do something."""
    require_kernels()

    def built(seed: int = 0, vocab_size: int = 11, **settings: Any) -> Transformer:
        model = tiny_model(seed, vocab_size, **settings).eval()
        for name, parameter in model.named_parameters():
            if "norm." in name:
                nn.init.normal_(parameter)
        return model

    return built


def concatenated(sequences: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids and positions."""
    ids = [token for sequence in sequences for token in sequence]
    return np.array(ids), np.concatenate([np.arange(len(sequence)) for sequence in sequences])


def rows_of(lists: list[list[int]], positions: NDArray[np.int64] | None = None, group: int = 1) -> Rows:
    counts = np.array([len(rows) for rows in lists], np.int32)
    starts = np.cumsum(counts, dtype=np.int64) - counts
    return Rows(np.concatenate(lists).astype(np.int32), starts, counts, group, positions)


def own_rows(sequences: list[list[int]], *, causal: bool) -> list[list[int]]:
    """The rows of each token's sentence, or those up to its own."""
    lists, start = [], 0
    for sequence in sequences:
        whole = list(range(start, start + len(sequence)))
        lists += [whole[: i + 1] if causal else whole for i in range(len(sequence))]
        start += len(sequence)
    return lists


def packer_of(model: Transformer, threads: int = 1) -> Packer:
    return Packer(StoredModel.of(model), "float32", threads)


def covering(model: Transformer, role: Role) -> Tables:
    return packer_of(model).positions(role).covering(5)


def room(stack: PackedStack, num_rows: int) -> KeysValues:
    keys_values = KeysValues(stack.heads, stack.num_layers)
    keys_values.reserve(num_rows)
    return keys_values


def memory_of(model: Transformer) -> tuple[list[Tensor], KeysValues]:
    """The memory of each source, and its keys and values."""
    memories = [model.encode(torch.tensor([source]))[0] for source in SOURCES]
    packer = packer_of(model)
    maps = packer.memory_maps()
    keys_values = KeysValues(packer.cross_heads, len(maps))
    keys_values.reserve(sum(map(len, SOURCES)))
    for layer, key_value in enumerate(maps):
        keys_values.store(layer, key_value(torch.cat(memories).numpy()), 0)
    return memories, keys_values


def rows_of_memory() -> list[list[int]]:
    """The rows that each token of the targets reads."""
    first, second = list(range(len(SOURCES[0]))), list(range(len(SOURCES[0]), sum(map(len, SOURCES))))
    return [first] * len(TARGETS[0]) + [second] * len(TARGETS[1])


@torch.no_grad()
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_packed_encoder_is_that_of_the_model(
    build: TinyModel, variant: dict[str, Any], threads: int
) -> None:
    model = build(**variant)
    stack, (ids, positions) = packer_of(model, threads).stack("source"), concatenated(SOURCES)
    own = rows_of(own_rows(SOURCES, causal=False), positions, group=2)
    found = stack(ids, positions, covering(model, "source"), room(stack, len(ids)), own)
    expected = torch.cat([model.encode(torch.tensor([source]))[0] for source in SOURCES])
    torch.testing.assert_close(torch.from_numpy(found), expected, **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_packed_decoder_is_that_of_the_model_token_by_token_and_all_at_once(
    build: TinyModel, variant: dict[str, Any]
) -> None:
    model = build(**variant)
    stack, (ids, positions) = packer_of(model).stack("target"), concatenated(TARGETS)
    tables, past, read = covering(model, "target"), own_rows(TARGETS, causal=True), rows_of_memory()
    memories, memory = memory_of(model)
    of_memory = rows_of(read, group=3)
    own, written = rows_of(past, positions, group=3), room(stack, len(ids))
    at_once = stack(ids, positions, tables, written, own, memory=(memory, of_memory))
    expected = torch.cat(
        [
            model.decode(torch.tensor([target]), encoded[None], padding_mask(torch.tensor([source])))[0]
            for source, target, encoded in zip(SOURCES, TARGETS, memories, strict=True)
        ]
    )
    torch.testing.assert_close(torch.from_numpy(at_once), expected, **TOLERANCE)
    written = KeysValues(stack.heads, stack.num_layers)
    for i in range(len(ids)):
        now = slice(i, i + 1)
        own, of_memory = rows_of(past[now], positions[now].copy()), rows_of(read[now])
        first = written.reserve(1)
        [alone] = stack(ids[now], positions[now], tables, written, own, first, (memory, of_memory))
        assert (alone == at_once[i]).all()


@torch.no_grad()
def test_what_does_not_fit_is_refused(build: TinyModel) -> None:
    model = build()
    encoder, decoder = (packer_of(model).stack(role) for role in ("source", "target"))
    (ids, positions), tables = concatenated([[5, END]]), covering(model, "source")
    own, (_, memory) = rows_of([[0, 1], [0, 1]]), memory_of(model)
    complete: dict[str, Any] = {"memory": (memory, rows_of([[0], [0]]))}
    encoder(ids, positions, tables, room(encoder, 2), own)
    decoder(ids, positions, tables, room(decoder, 2), own, **complete)
    refused: list[tuple[PackedStack, tuple[Any, ...], dict[str, Any]]] = [
        (encoder, (ids, positions, tables, room(encoder, 1), own), {}),  # a row outside the table
        (encoder, (ids, positions, tables, room(encoder, 2), own, 1), {}),
        (encoder, (ids + 11, positions, tables, room(encoder, 2), own), {}),  # an id outside the vocabulary
        (encoder, (-ids, positions, tables, room(encoder, 2), own), {}),
        (encoder, (ids.astype(np.int32), positions, tables, room(encoder, 2), own), {}),
        (encoder, (ids, positions[:1], tables, room(encoder, 2), own), {}),
        (encoder, (ids, positions, tables, room(encoder, 2), rows_of([[0]])), {}),
        (encoder, (ids, positions, tables, room(encoder, 2), own), complete),
        (decoder, (ids, positions, tables, room(decoder, 2), own), {}),  # no memory
        (
            decoder,
            (ids, positions, tables, room(decoder, 2), own),
            {"memory": (memory, rows_of([[0]]))},
        ),
    ]
    for stack, arguments, others in refused:
        with pytest.raises(AssertionError):
            stack(*arguments, **others)


@torch.no_grad()
def test_a_step_that_does_not_fit_is_refused(build: TinyModel) -> None:
    decoding = NativeEngine(build()).start(2)
    decoding.admit([[5, END]])
    for tokens in ([[5, 11]], [[-1, 5]], [[5, 5, 5]], [[5, 5], [5, 5]]):
        with pytest.raises(AssertionError):
            decoding.logits(np.array(tokens))
    decoding.logits(np.array([[5, 6]]))
    for parents in ([[0, 2]], [[-1, 0]], [[0]]):
        with pytest.raises(AssertionError):
            decoding.reorder(np.array(parents))
    decoding.reorder(np.array([[1, 1]]))


def test_whoever_asks_while_encodings_are_computed_has_them_too(
    build: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, found = packer_of(build()).positions("source"), list[Tables]()
    compute = SINUSOIDS["sinusoidal"]

    def interrupted(length: int, d_model: int) -> NDArray[np.float32]:
        """The encodings; while they are computed, another thread asks for them."""
        if not found:
            found.append(Tables())
            found[0] = tables.covering(length)
        return compute(length, d_model)

    monkeypatch.setattr(native_layers, "SINUSOIDS", {"sinusoidal": interrupted})
    for length in (3, 2_000):
        found.clear()
        for each in (tables.covering(length), *found):
            assert each.encodings is not None
            assert len(each.encodings) >= length


def test_large_embeddings_of_int8_models_are_rounded_to_bfloat16(
    build: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    sources, targets = [[5, 6, 7, END]], [[7, 8, END]]
    whole = NativeEngine(model, "int8").token_log_probs(sources, targets)
    with monkeypatch.context() as patched:
        patched.setattr(native_layers, "_LARGE_BYTES", 0)
        rounded = NativeEngine(model, "int8").token_log_probs(sources, targets)
    matrix = model.embeddings.matrix("target").data
    matrix.copy_(matrix.bfloat16())
    assert rounded.tolist() == NativeEngine(model, "int8").token_log_probs(sources, targets).tolist()
    assert 0 < abs(rounded - whole).max() < 0.1


def test_batches_of_large_vocabularies_are_smaller(build: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NativeEngine(build())
    assert engine.batch_tokens == BATCH_TOKENS
    monkeypatch.setattr(native_engine, "_MOST_BATCH_LOGITS", 11 * 100)
    assert engine.batch_tokens == 100


def test_no_position_behind_the_last_learned_one_is_read(build: TinyModel) -> None:
    model = build(positions="learned", max_positions=9)
    config, learned = model.config, np.zeros((9, model.config.d_model), np.float32)
    tables = native_layers.PositionTables(config, learned, None)
    encodings = tables.covering(9).encodings
    assert encodings is not None
    assert len(encodings) == 9
    with pytest.raises(ValueError, match="10 positions, but 9 were learned"):
        tables.covering(10)
