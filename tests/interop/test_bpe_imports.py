"""Models with byte-pair encoding of Moses' words: translations equal those of the original software."""

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.interop.foreign_models import SENTENCES, argos_package, fine_tune, make_marian_folder
from tests.packages import require_packages

from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import import_model
from allyouneed.runs.loading import load_translator

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
require_packages("sentencepiece", "transformers", "ctranslate2", "sacremoses", "subword_nmt")

TEXTS = [
    sentence.replace("sun", "sun's") if number % 5 == 0 else sentence
    for number, sentence in enumerate(SENTENCES[:200])
]


class Originals:
    """The tokenisers of an Argos package."""

    def __init__(self, codes: str) -> None:
        import sacremoses
        from subword_nmt.apply_bpe import BPE

        self._normalizer, self._tokenizer = (
            sacremoses.MosesPunctNormalizer("en"),
            sacremoses.MosesTokenizer("en"),
        )
        self._detokenizer, self._bpe = sacremoses.MosesDetokenizer("fr"), BPE(io.StringIO(codes))

    def encode(self, text: str) -> list[str]:
        words = self._tokenizer.tokenize(self._normalizer.normalize(text))
        found: list[str] = self._bpe.segment_tokens(" ".join(words).split(" "))
        return found

    def decode(self, pieces: list[str]) -> str:
        """As Argos Translate does, which leaves the sign of a piece that goes on at the end."""
        text: str = self._detokenizer.detokenize(" ".join(pieces).replace("@@ ", "").split(" "))
        return text.removesuffix("@@")


def codes_of(texts: list[str]) -> str:
    import sacremoses
    from subword_nmt.learn_bpe import learn_bpe

    moses, out = sacremoses.MosesTokenizer("en"), io.StringIO()
    learn_bpe(io.StringIO("\n".join(" ".join(moses.tokenize(text)) for text in texts)), out, 150)
    return out.getvalue()


def _package(folder: Path) -> Path:
    """A package with a vocabulary that is large enough for the pieces of merges."""
    languages = [f"l{number}" for number in range(120)]
    opus = make_marian_folder(folder / "opus", languages=languages)
    fine_tune(opus, 200)
    return argos_package(opus, folder)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Originals]:
    """A package whose vocabulary has the pieces of merges instead of SentencePiece's, and some others."""
    folder = tmp_path_factory.mktemp("bpe")
    made, codes = _package(folder), codes_of(TEXTS)
    originals, path = Originals(codes), folder / "bpe.argosmodel"
    pieces = [*dict.fromkeys(piece for text in TEXTS for piece in originals.encode(text))]
    with zipfile.ZipFile(made) as before, zipfile.ZipFile(path, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name.endswith("vocabulary.json"):
                names: list[str] = json.loads(content)
                specials = [each for each in names if each in ("</s>", "<unk>", "<pad>", "<s>", "<blank>")]
                same = {each: each[1:] for each in names if each[0] == "\u2581" and each[1:] in pieces}
                more = [piece for piece in pieces if piece not in same.values()]
                others = iter([*more, *(f"x{number}@@" for number in range(len(names)))])
                kept = [each if each in specials else same.get(each) or next(others) for each in names]
                assert len({*kept}) == len(names)
                assert {*pieces} < {*kept}
                content = json.dumps(kept).encode()
            is_tokenizer = name.endswith("sentencepiece.model")
            new_name = name.replace("sentencepiece.model", "bpe.model")
            after.writestr(new_name, codes.encode() if is_tokenizer else content)
    return path, originals


def test_greedy_outputs_are_those_of_the_original(package: tuple[Path, Originals], tmp_path: Path) -> None:
    import ctranslate2

    path, originals = package
    import_model(path, tmp_path / "model")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "package")
    [folder] = (tmp_path / "package").glob("*/model")
    settings: dict[str, Any] = {"beam_size": 1, "max_decoding_length": 20, "disable_unk": False}
    original = ctranslate2.Translator(str(folder), "cpu", compute_type="float32")
    found = original.translate_batch([[*originals.encode(text), "</s>"] for text in TEXTS], **settings)
    expected = [originals.decode(each.hypotheses[0]) for each in found]
    translator = load_translator(tmp_path / "model", precision="float32")
    ours = translator.translate(TEXTS, beam_size=1, max_length=20)
    equal = sum(each.text == other for each, other in zip(ours, expected, strict=True))
    assert equal == len(TEXTS)
    assert len({*expected}) >= 50
    assert not any("@@" in each.text for each in ours)


def test_tokenisers_of_another_model_are_refused(package: tuple[Path, Originals], tmp_path: Path) -> None:
    path, _ = package
    wrong = tmp_path / "wrong.argosmodel"
    draw = random.Random(1)
    merges = "\n".join(" ".join(draw.choices("qzxjkvw", k=2)) for _ in range(300))
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(wrong, "w") as after:
        for name in before.namelist():
            after.writestr(name, merges if name.endswith("bpe.model") else before.read(name))
    with pytest.raises(ModelError, match="it is the tokeniser of another model"):
        import_model(wrong, tmp_path / "model")


PREPROCESS = rb"""#!/bin/bash
# tokenizer.perl is part of Moses
${MOSESHOME}/tokenizer/replace-unicode-punctuation.perl |
${MOSESHOME}/tokenizer/remove-non-printing-char.perl |
${MOSESHOME}/tokenizer/normalize-punctuation.perl -l $1 |
${MOSESHOME}/tokenizer/tokenizer.perl -a -threads ${THREADS} \
   -l $1 | apply_bpe -c $2
"""
"""As in the packages of OPUS-MT: who calls it names the language."""


def test_a_download_of_opus_mt_is_read_as_it_is(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    num = SentencePieceProcessor(model_file=str(FIXTURES / "vocab.spm")).get_piece_size()
    codes = codes_of(TEXTS)
    pieces = [*dict.fromkeys(piece for text in TEXTS for piece in Originals(codes).encode(text))]
    names = ["</s>", "<unk>", *pieces, *(f"x{number}@@" for number in range(num))][:num]
    assert names[-1].startswith("x")
    vocabulary = "".join(f"{json.dumps(name)}: {number}\n" for number, name in enumerate(names)).encode()
    path = tmp_path / "opus-2020-01-01.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(FIXTURES / "swish.npz", "opus.bpe32k.model1.npz.best-perplexity.npz")
        archive.writestr("opus.bpe32k.vocab.yml", vocabulary)
        archive.writestr("preprocess.sh", PREPROCESS)
        for side in ("source", "target"):
            archive.writestr(f"{side}.bpe", codes)
        archive.writestr("README.md", "# opus\n")
    assert import_model(path, tmp_path / "model", ("fr", "de")).format == "marian"
    translator = load_translator(tmp_path / "model")
    files = (tmp_path / "model" / f"{side}_tokenizer.json" for side in ("source", "target"))
    source, target = (json.loads(file.read_bytes()) for file in files)
    assert (source["language"], target["language"]) == ("fr", "de")
    assert source["steps"] == ["control_characters", "hyphens", "unicode_punctuation"]
    assert target["steps"] == []
    assert translator.config.data.tokenizer == "bpe"
    assert not any("@@" in each.text for each in translator.translate(TEXTS[:20], max_length=20))
    [notice] = import_model(path, tmp_path / "another").notices[-1:]
    assert notice.startswith("its languages are not known")
    with pytest.raises(UsageError, match="is not exported; take the model that it was imported from"):
        export_model(tmp_path / "model", "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
