"""Vocabularies of M2M-100 and NLLB: SentencePiece with fairseq's ids, and a symbol for each language."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order, Vocabularies, read_sentencepiece, sentencepiece_of
from allyouneed.interop.foreign_files import damaged, is_whole, json_object, whole_number
from allyouneed.interop.sentencepiece_files import CONTROL, NORMAL, UNKNOWN_PIECE, field, piece

PIECES: Final = "sentencepiece.bpe.model"
"""File of the SentencePiece model."""
LANGUAGES_OF: Final[Mapping[str, str]] = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
    "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn "
    "mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""`language_codes` of transformers' M2M100Tokenizer, whose folders do not list them -> their order."""
_FIRST: Final = ["<s>", "<pad>", "</s>", "<unk>"]
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})")
_MAX_BYTES, _MOST_NAMELESS = 1 << 26, 1_000
_STEPS: Final = {"Precompiled", "Replace", "Strip", "Metaspace", "WhitespaceSplit"}
"""Steps of a tokeniser of `tokenizers` that SentencePiece does, too."""


def is_multilingual(names: Sequence[str]) -> bool:
    """Whether a vocabulary, in its own order, begins as fairseq's and has symbols of several languages."""
    return [*names[:4]] == _FIRST and sum(map(bool, map(_LANGUAGE.fullmatch, names))) > 1


def vocabularies_of(names: Sequence[str], model: bytes, file: Path) -> Vocabularies:
    """Our vocabularies for one in fairseq's order, whose entries for languages get our form, `>>fr<<`.

    `file` had the SentencePiece model; raises ModelError if it is of another vocabulary.
    """
    symbols = {name: found[1] or found[2] for name in names if (found := _LANGUAGE.fullmatch(name))}
    entries = [f">>{symbols[name]}<<" if name in symbols else name for name in names]
    order = Order.of(entries, start=0, padding=1, end=2, unknown=3)
    tokenizer = sentencepiece_of(file, order.pieces, model)
    return Vocabularies((order, order), (tokenizer, tokenizer))


def read_vocabulary(path: Path, size: int) -> tuple[list[str], Vocabularies]:
    """The entries, in fairseq's order, of a folder of transformers, and our vocabularies.

    Entries beyond the last one, of which embeddings have some, up to `size`, get names of no text.

    Raises:
        ModelError: Files are missing or damaged, or the languages are not listed, or `size` is too small.
    """
    settings = (
        json_object(path / "tokenizer_config.json") if (path / "tokenizer_config.json").exists() else {}
    )
    if settings.get("legacy_behaviour"):
        raise ModelError(
            f"{path / 'tokenizer_config.json'}: legacy_behaviour = true is not supported (sources would end "
            "with their language); set it to false, as such models are trained"
        )
    described = path / "tokenizer.json"
    description = checked_description(described) if described.exists() else {}
    file, model = sentencepiece_in(path)
    found = dict(enumerate(_base(path, description, model)))
    found |= _added(description, settings)
    if not any(map(_LANGUAGE.fullmatch, found.values())):
        found |= dict(enumerate(_listed_languages(path, settings), start=len(found)))
    if not is_multilingual([found.get(number, "") for number in range(len(found))]):
        raise damaged(path, "its vocabulary has no codes of languages, or does not begin with <s> and <pad>")
    if not len(found) <= size <= len(found) + _MOST_NAMELESS or max(found) >= size:
        raise damaged(
            path / "config.json", f"vocab_size is {size:,}, but the vocabulary has {len(found):,} entries"
        )
    names = [found.get(number, f"madeupword{number}") for number in range(size)]
    return names, vocabularies_of(names, model, file)


def sentencepiece_in(path: Path) -> tuple[Path, bytes]:
    """The SentencePiece model of a folder, and the file that has it, or that it is made from.

    Raises ModelError if there is none.
    """
    for file in (path / PIECES, path / "sentencepiece.model", path / "source.spm"):
        if file.exists():
            return file, read_sentencepiece(file)
    if not (file := path / "tokenizer.json").exists():
        raise ModelError(f"{path}: has no tokeniser; put the original's {PIECES} into it")
    description = checked_description(file)
    return file, _sentencepiece(description["model"], _normalisation(description, file), file)


def checked_description(file: Path) -> dict[str, Any]:
    """A `tokenizer.json` that splits as SentencePiece does, without the parts that only add symbols.

    Raises ModelError if it has other steps, or its ids are not those from 0 on.
    """
    found = json_object(file, _MAX_BYTES)
    model: dict[str, Any] = found["model"] if isinstance(found.get("model"), dict) else {}
    steps = found.get("normalizer"), found.get("pre_tokenizer")
    known = model.get("type") == "BPE" and model.get("unk_token") == "<unk>"
    others = "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"
    if not known or any(map(model.get, others)) or not all(type_ in _STEPS for type_ in _types(steps)):
        raise ModelError(f"{file}: splits otherwise than SentencePiece's BPE does, which is not supported")
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocabulary, dict) or not isinstance(merges, list) or not _are_places(vocabulary):
        raise damaged(file, "the ids of its vocabulary are not those from 0 on")
    unused = dict.fromkeys(("post_processor", "decoder", "truncation", "padding"))
    return {**found, **unused, "added_tokens": [*_entries(found.get("added_tokens"), len(vocabulary), file)]}


def _are_places(vocabulary: Mapping[str, object]) -> bool:
    """Whether the ids of entries are those from 0 on."""
    places = [place for place in vocabulary.values() if type(place) is int]
    return len(places) == len(vocabulary) > 0 and sorted(places) == [*range(len(places))]


def _entries(added: object, least: int, file: Path) -> Iterator[dict[str, Any]]:
    for each in added if isinstance(added, list) else ():
        number, content = (each.get("id"), each.get("content")) if isinstance(each, dict) else (None, None)
        if not is_whole(number, 0, 2 * least + _MOST_NAMELESS) or not isinstance(content, str):
            raise damaged(file, "an added token has no valid id")
        yield each


def _types(steps: Iterable[object]) -> Iterator[str]:
    """The types of steps of `tokenizers`, and of those of a sequence in their place."""
    for step in steps:
        if step is None:
            continue
        inner: object = None
        if isinstance(step, dict):
            inner = step.get("normalizers", step.get("pretokenizers", [step]))
        for each in inner if isinstance(inner, list) else [None]:
            yield str(each.get("type")) if isinstance(each, dict) else "none"


def _base(path: Path, description: Mapping[str, Any], model: bytes) -> list[str]:
    """The entries without added ones."""
    if description:
        ids = description["model"]["vocab"]
    elif (path / "vocab.json").exists():
        ids = json_object(path / "vocab.json", _MAX_BYTES)
    else:
        return [*_FIRST, *SentencePieceTokenizer.entries_of(model)[3:]]
    if not _are_places(ids):
        raise damaged(path / "vocab.json", "its ids are not those from 0 on")
    return sorted(ids, key=ids.__getitem__)


def _added(description: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[int, str]:
    """The added entries with ids, of both files that may have them."""
    found = {each["id"]: each["content"] for each in description.get("added_tokens", ())}
    of_settings = settings.get("added_tokens_decoder")
    for number, entry in of_settings.items() if isinstance(of_settings, dict) else ():
        place, content = whole_number(number), entry.get("content") if isinstance(entry, dict) else None
        if place is not None and isinstance(content, str):
            found.setdefault(place, content)
    return found


def _listed_languages(path: Path, settings: Mapping[str, Any]) -> Iterable[str]:
    """The entries for languages where no file has their ids; they follow the others in this order."""
    known = settings.get("language_codes")
    if isinstance(known, str) and known in LANGUAGES_OF:
        return [f"__{code}__" for code in LANGUAGES_OF[known].split()]
    file = path / "special_tokens_map.json"
    lists = [settings, json_object(file) if file.exists() else {}]
    for name in ("extra_special_tokens", "additional_special_tokens"):
        for each in lists:
            if (
                (codes := each.get(name))
                and isinstance(codes, list)
                and all(isinstance(c, str) for c in codes)
            ):
                return codes
    return (
        [f"__{code}__" for code in LANGUAGES_OF["m2m100"].split()] if (path / "vocab.json").exists() else []
    )


def _normalisation(description: Mapping[str, Any], file: Path) -> bytes:
    """The table of compatible characters, as SentencePiece keeps it; empty if there is none."""
    step = description.get("normalizer") or {}
    for each in step.get("normalizers", [step]):
        if each.get("type") == "Precompiled":
            try:
                return base64.b64decode(each.get("precompiled_charsmap"), validate=True)
            except (ValueError, TypeError):
                raise damaged(file, "its table of characters is not base64") from None
    return b""


def _sentencepiece(model: Mapping[str, Any], normalisation: bytes, file: Path) -> bytes:
    """The SentencePiece model whose merges are those of a model of `tokenizers`, the first the best."""
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(model["merges"]):
        parts = pair.split(" ") if isinstance(pair, str) else pair
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise damaged(file, "its merges are no pairs")
        ranks.setdefault("".join(parts), rank)
    symbols = [piece("<unk>", 0, UNKNOWN_PIECE), piece("<s>", 0, CONTROL), piece("</s>", 0, CONTROL)]
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    pieces = [piece(name, -ranks.get(name, 0), NORMAL) for name in names if name not in {*_FIRST, "<mask>"}]
    settings = field(2, b"\x18\x02")  # trainer_spec.model_type = BPE
    return b"".join([*symbols, *pieces, settings, field(3, field(2, normalisation))])
