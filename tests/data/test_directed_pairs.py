"""Files of pairs are named after directions, and small directions are seen more often."""

import re
from pathlib import Path

import pytest

from allyouneed.data.corpus import CleaningReport
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.directed_pairs import ReadingOrder, named_files, tempered_weights
from allyouneed.errors import UsageError

EN_DE, DE_EN = ReadingOrder("en", "de"), ReadingOrder("de", "en", True)


@pytest.mark.parametrize(
    ("argument", "file", "reading"),
    [
        ("en-de=train.tsv", "train.tsv", EN_DE),
        ("eng-deu=a/b=c.tsv", "a/b=c.tsv", ReadingOrder("eng", "deu")),
        ("en-pt_BR=x", "x", ReadingOrder("en", "pt_BR")),
        ("zh-Hans-en=x", "x", ReadingOrder("zh-Hans", "en")),
        (r"en-de=C:\texts\a.tsv", r"C:\texts\a.tsv", EN_DE),
        ("train.tsv", "train.tsv", None),
        ("./en-de=train.tsv", "en-de=train.tsv", None),
        ("train-dev=1.tsv", "train-dev=1.tsv", None),  # no languages
        ("en-de=", "en-de=", None),
    ],
)
def test_a_name_is_two_codes_of_languages_before_the_first_equals_sign(
    argument: str, file: str, reading: ReadingOrder | None
) -> None:
    given = [Path(argument)] if argument != "./en-de=train.tsv" else [Path("dir") / ".." / "en-de=train.tsv"]
    files, readings = named_files(given)
    assert readings == ([reading] if reading else [])
    assert [each.name for each in files] == [Path(file).name]


def test_a_direction_has_one_name_however_it_is_spelled() -> None:
    assert {ReadingOrder(*codes).direction for codes in (("en", "pt-BR"), ("eng", "pt_BR"))} == {
        ("en", "pt-BR")
    }


def test_both_directions_are_two_readings_of_a_file() -> None:
    files, readings = named_files([Path("en-de=a"), Path("en-fr=b")], both=True)
    assert files == [Path("a"), Path("a"), Path("b"), Path("b")]
    assert readings == [EN_DE, DE_EN, ReadingOrder("en", "fr"), ReadingOrder("fr", "en", True)]


@pytest.mark.parametrize(
    ("given", "both", "message"),
    [
        (["en-de=a", "b"], False, "b: has no direction, but other files have; write SOURCE-TARGET=FILE"),
        (["a"], True, "both_directions: is for named files; write SOURCE-TARGET=FILE"),
        ([], True, "both_directions: is for named files; write SOURCE-TARGET=FILE"),
        (["en-eng=a"], False, "en-eng=a: has one language twice; write SOURCE-TARGET=FILE"),
    ],
)
def test_names_that_say_too_little_are_refused(given: list[str], both: bool, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        named_files([Path(each) for each in given], both=both)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_shares_are_proportional_to_a_root_of_the_sizes(temperature: float) -> None:
    sizes = {"en-de": 160_000, "en-fr": 10_000, "en-nl": 10_000}
    weights = tempered_weights(sizes, temperature, 1_000)
    copies = {name: weights[name] * size for name, size in sizes.items()}
    assert weights["en-de"] == 1
    assert copies["en-de"] / copies["en-fr"] == pytest.approx(16 ** (1 / temperature))
    assert copies["en-fr"] == copies["en-nl"]


def test_no_pair_is_wanted_more_often_than_is_allowed_and_no_temperature_is_below_1() -> None:
    assert tempered_weights({"en-de": 10**7, "en-fr": 10}, 5, 1_000)["en-fr"] == 1_000
    for temperature in (0.99, float("nan")):
        with pytest.raises(UsageError, match="give 1, by which nothing is repeated, or more"):
            tempered_weights({"en-de": 1}, temperature, 10)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_bytes(b"dog\tHund\ncat\tKatze\n")
    return tmp_path / "pairs.tsv"


def read(files: CorpusFiles) -> list[tuple[object, str, str]]:
    files.require_usable()
    return [(pair.direction, pair.source, pair.target) for pair in files.read(CleaningReport())]


def test_a_file_is_read_in_the_order_of_its_name_and_in_the_other(pairs: Path, tmp_path: Path) -> None:
    files = CorpusFiles(pairs=[pairs, pairs], readings=[EN_DE, DE_EN])
    assert read(files) == [
        *((("en", "de"), "dog", "Hund"), (("en", "de"), "cat", "Katze")),
        *((("de", "en"), "Hund", "dog"), (("de", "en"), "Katze", "cat")),
    ]
    assert files.directions == [("en", "de"), ("de", "en")]
    variant = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    unit = variant("de", "Hund") + variant("en", "dog") + variant("fr", "chien")
    memory = tmp_path / "memory.tmx"
    memory.write_bytes(f"<tmx version='1.4'><body><tu>{unit}</tu></body></tmx>".encode())
    readings = [EN_DE, DE_EN, ReadingOrder("en", "fr")]
    assert read(CorpusFiles(pairs=[memory] * 3, readings=readings)) == [
        *((("en", "de"), "dog", "Hund"), (("de", "en"), "Hund", "dog"), (("en", "fr"), "dog", "chien"))
    ]


def test_weights_belong_to_a_file_in_a_direction(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "small.tsv").write_bytes(b"sun\tsoleil\n")
    readings = [EN_DE, DE_EN, ReadingOrder("en", "fr")]
    files = CorpusFiles(pairs=[pairs, pairs, tmp_path / "small.tsv"], readings=readings).tempered(5)
    assert files.weights_by_file() == {
        (str(pairs), ("en", "de")): 1,
        (str(pairs), ("de", "en")): 1,
        (str(tmp_path / "small.tsv"), ("en", "fr")): 2**0.8,
    }
    others = CorpusFiles(pairs=[pairs, pairs], readings=readings[:2], weights=[0, 2]).distinct()
    assert read(others) == [(("de", "en"), "Hund", "dog"), (("de", "en"), "Katze", "cat")]


def test_what_has_no_direction_or_two_is_refused_beside_files_that_have_one(pairs: Path) -> None:
    with pytest.raises(UsageError, match=r"is named twice, but its first column is in one"):
        read(CorpusFiles(pairs=[pairs, pairs], readings=[EN_DE, ReadingOrder("de", "en")]))
    with pytest.raises(UsageError, match=r"source, target: have no direction"):
        read(CorpusFiles(pairs, pairs, pairs=[pairs], readings=[EN_DE], weights=[1, 1]))
    with pytest.raises(UsageError, match=r"languages: is for one direction, but there are several"):
        read(CorpusFiles(pairs=[pairs, pairs], readings=[EN_DE, DE_EN], languages=("en", "de")))
