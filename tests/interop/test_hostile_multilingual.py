"""Damaged and malicious folders of M2M-100 and NLLB: one line, exit code 4, and no code of theirs runs.

Promise: Foreign models.
"""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interop.multilingual_models import PIECES, convert, make_m2m_folder, make_nllb_folder
from tests.interop.test_hostile_imports import (  # noqa: F401 - one is a fixture
    Payload,
    Spoil,
    change,
    delete,
    refused,
    tensors,
    watched,
    write,
)
from tests.packages import require_packages

require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

CONFIG, DESCRIPTION, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"


def described(alter: Callable[[dict[str, Any]], Any], name: str = DESCRIPTION) -> Spoil:
    def spoil(folder: Path) -> None:
        found = json.loads((folder / name).read_bytes())
        alter(found)
        (folder / name).write_text(json.dumps(found))

    return spoil


def without_languages(folder: Path) -> None:
    described(lambda found: found.update(added_tokens=found["added_tokens"][:5]))(folder)
    change(SETTINGS, extra_special_tokens=[])(folder)


def without(*names: str) -> Spoil:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def nested(depth: int) -> dict[str, Any]:
    step: dict[str, Any] = {"type": "Strip"}
    for _ in range(depth):
        step = {"type": "Sequence", "normalizers": [step]}
    return step


_OTHER = "splits otherwise than SentencePiece's BPE does"
_IDS = "the ids of its vocabulary are not those from 0 on"
NLLB: dict[str, tuple[Spoil, str]] = {
    "mBART": (change(CONFIG, model_type="mbart"), "it has layer normalisation of the embeddings"),
    "T5": (change(CONFIG, model_type="t5"), "it has buckets of relative positions"),
    "post-norm": (change(CONFIG, normalize_before=False), "normalize_before = False is not supported"),
    "a start that is a piece": (change(CONFIG, decoder_start_token_id=9), "the decoder starts with entry 9"),
    "padding elsewhere": (change(CONFIG, pad_token_id=0), "pad_token_id is 0, not the place of <pad>"),
    "an end elsewhere": (change(CONFIG, eos_token_id=9), "eos_token_id is 9, not the place of </s>"),
    "fewer entries": (change(CONFIG, vocab_size=10), "vocab_size is 10, but the vocabulary has"),
    "more entries": (change(CONFIG, vocab_size=5_000), "vocab_size is 5,000, but the vocabulary has"),
    "one entry more": (change(CONFIG, vocab_size=100), "is (99, 24), (100, 24) expected"),
    "languages at the end of sources": (change(SETTINGS, legacy_behaviour=True), "legacy_behaviour = true"),
    "no languages": (without_languages, "its vocabulary has no codes of languages"),
    "no tokeniser": (delete(DESCRIPTION), f"has no tokeniser; put the original's {PIECES} into it"),
    "a tokeniser of no bytes": (write(DESCRIPTION, b""), "tokenizer.json: is not JSON"),
    "no model": (write(DESCRIPTION, b'{"model": []}'), _OTHER),
    "unigrams": (described(lambda found: found["model"].update(type="Unigram")), _OTHER),
    "dropout of merges": (described(lambda found: found["model"].update(dropout=0.5)), _OTHER),
    "bytes before merges": (
        described(lambda found: found.update(pre_tokenizer={"type": "ByteLevel"})),
        _OTHER,
    ),
    "a type that is a list": (described(lambda found: found.update(normalizer={"type": []})), _OTHER),
    "steps in steps": (described(lambda found: found.update(normalizer=nested(90))), _OTHER),
    "an id of four billion": (
        described(lambda found: found["model"]["vocab"].update(moon=2**32)),
        _IDS,
    ),
    "an id that is a text": (described(lambda found: found["model"]["vocab"].update(moon="1")), _IDS),
    "a vocabulary that is a list": (described(lambda found: found["model"].update(vocab=[])), _IDS),
    "an added id of four billion": (
        described(lambda found: found["added_tokens"][4].update(id=2**32)),
        "an added token has no valid id",
    ),
    "an added token that is a number": (
        described(lambda found: found["added_tokens"].append(7)),
        "an added token has no valid id",
    ),
    "merges of three": (
        described(lambda found: found["model"]["merges"].append(["a", "b", "c"])),
        "its merges are no pairs",
    ),
    "a table that is no base64": (
        described(
            lambda found: found["normalizer"]["normalizers"][0].update(precompiled_charsmap="\N{SNOWMAN}")
        ),
        "its table of characters is not base64",
    ),
    "a language twice": (
        described(lambda found: found["added_tokens"][-1].update(content="deu_Latn")),
        "a piece is empty, occurs twice",
    ),
    "a norm missing": (
        tensors(lambda found: found.pop("model.decoder.layer_norm.bias")),
        "has no tensor model.decoder.layer_norm.bias",
    ),
    "norms of embeddings": (
        tensors(
            lambda found: found.update(
                {"model.encoder.layernorm_embedding.weight": found["model.decoder.layer_norm.bias"].clone()}
            )
        ),
        "(model.encoder.layernorm_embedding.weight)",
    ),
}
M2M: dict[str, tuple[Spoil, str]] = {
    "no vocabulary and no list": (
        without("vocab.json", SETTINGS, "special_tokens_map.json"),
        "its vocabulary has no codes of languages",
    ),
    "an entry twice": (
        described(lambda ids: ids.update({"▁sun": 7}), "vocab.json"),
        "vocab.json: its ids are not those from 0 on",
    ),
    "another first entry": (
        described(lambda ids: ids.update({"<s>": 1, "<pad>": 0}), "vocab.json"),
        "does not begin with <s> and <pad>",
    ),
    "no tokeniser": (delete(PIECES), "has no tokeniser"),
    "a tokeniser that is a pickle": (write(PIECES, pickle.dumps(Payload())), f"{PIECES}: cannot be read"),
    "a vocabulary that is a list": (write("vocab.json", b"[]"), "vocab.json: is no JSON object"),
}
CTRANSLATE2: dict[str, tuple[Spoil, str]] = {
    "no tokeniser": (delete(DESCRIPTION), "has no tokeniser; put the original's"),
    "another start": (change(CONFIG, decoder_start_token=None), "decoder_start_token is null"),
    "fewer entries": (write("shared_vocabulary.json", b'["<s>", "<pad>", "</s>", "<unk>"]'), "has no"),
}


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_nllb_folder(tmp_path_factory.mktemp("nllb") / "nllb")


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_m2m_folder(tmp_path_factory.mktemp("m2m") / "m2m")


@pytest.fixture(scope="module")
def converted(nllb: Path) -> Path:
    return convert(nllb, nllb.with_name("converted"))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("nllb", name) for name in NLLB),
        *(("m2m", name) for name in M2M),
        *(("converted", name) for name in CTRANSLATE2),
    ],
)
def test_each_fault_is_one_line(
    kind: str, name: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original: Path = request.getfixturevalue(kind)
    folder = Path(shutil.copytree(original, tmp_path / "model"))
    spoil, reason = {"nllb": NLLB, "m2m": M2M, "converted": CTRANSLATE2}[kind][name]
    spoil(folder)
    capsys.readouterr()  # of the fixtures
    refused(folder, capsys, reason)
