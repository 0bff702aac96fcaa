"""Translation memories give a pair for each unit in both languages, in little memory; faults have a place."""

import bz2
import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.data.corpus import CleaningReport, DropReason, clean_pairs
from allyouneed.data.corpus_files import CorpusFiles, read_pairs
from allyouneed.errors import DataError, UserError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n<body>\n'
)
END = "</body>\n</tmx>\n"


def unit(**texts: str) -> str:
    """A unit of two lines and more: its variants in languages, `_` for `-`."""
    variants = (f'<tuv xml:lang="{c.replace("_", "-")}"><seg>{text}</seg></tuv>' for c, text in texts.items())
    return "<tu>\n" + "".join(variants) + "</tu>\n"


def memory(*units: str, head: str = HEAD) -> bytes:
    return (head + "".join(units) + END).encode()


UNITS = unit(en_US="one", de_DE="eins"), unit(en="two", fr="deux"), unit(DE="drei", EN="three")


def read(
    path: Path, content: bytes, *languages: str | None, **options: int
) -> tuple[list[tuple[str, str, int]], CleaningReport]:
    path.write_bytes(content)
    source, target = languages or ("en", "de")
    files = CorpusFiles(
        pairs=path, source_language=source, target_language=target, max_bytes=options.get("max_bytes")
    )
    report = CleaningReport()
    pairs = [
        (p.source, p.target, p.line_number) for p in clean_pairs(files.read(report), files.limits, report)
    ]
    return pairs, report


@pytest.mark.parametrize("name", ["memory.tmx", "pairs.tsv"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
def test_each_unit_gives_a_pair_with_the_line_where_it_begins(
    tmp_path: Path, pack: Callable[[bytes], bytes], name: str
) -> None:
    pairs, report = read(tmp_path / name, pack(memory(*UNITS)))
    assert pairs == [("one", "eins", 5), ("three", "drei", 9)]
    dropped = report.dropped[DropReason.NO_TRANSLATION]
    assert (report.num_read, dropped.num_pairs, dropped.examples) == (3, 1, [f"{tmp_path / name}:7"])
    assert f"{tmp_path / name}: 12 lines" in report.lines()
    assert read_pairs(tmp_path / name, "de", "en") == (["eins", "drei"], ["one", "three"])


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("UTF-8", "utf-8-sig"),
        ("UTF-16", "utf-16"),
        ("utf-16", "utf-16-be-with-mark"),
        ("UTF-16LE", "utf-16-le"),
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
    ],
)
def test_encodings_that_xml_declares_are_read(tmp_path: Path, declared: str, encoding: str) -> None:
    text = memory(unit(en="a", de="süß"), head=HEAD.replace("UTF-8", declared)).decode()
    if encoding == "utf-16-be-with-mark":
        text, encoding = "\ufeff" + text, "utf-16-be"
    assert read(tmp_path / "a", text.encode(encoding))[0] == [("a", "süß", 5)]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("a\tb\n   c&#10;d&#13;e", "a b c d e"),
        ("\n  a  b\n", "a  b"),
        ('a <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept>', "a bold"),
        ("<hi>a <hi>b</hi></hi>", "a b"),
        ("a<ph>&lt;img alt='<sub>a <ph/>picture</sub>'&gt;</ph>b<it pos='begin'>x</it><ut>y</ut>", "ab"),
        ("<![CDATA[a < b]]> &amp; c&#x20AC;", "a < b & c€"),
        ("a\u2028b\u00a0c", "a\u2028b\u00a0c"),
    ],
)
def test_a_segment_is_one_line_without_the_codes_of_other_formats(
    tmp_path: Path, segment: str, text: str
) -> None:
    note = "<note>no <seg_/> text</note><prop type='x'>no</prop>"
    content = memory(unit(en=segment, de="x").replace("<seg>", f"{note}<seg>"))
    assert read(tmp_path / "a", content)[0] == [(text, "x", 5)]


SEVERAL = memory(
    unit(en_US="color", en_GB="colour", de="Farbe"), unit(en_US="one", de_DE="eins", de_AT="ans")
)


@pytest.mark.parametrize(
    ("languages", "pairs"),
    [
        (("en", "de"), [("color", "Farbe", 5), ("one", "eins", 7)]),
        (("EN", "deu"), [("color", "Farbe", 5), ("one", "eins", 7)]),
        (("en-GB", "de"), [("colour", "Farbe", 5)]),  # the file has just that
        (("en_us", "de-AT"), [("one", "ans", 7)]),
        (("en-US", "en-GB"), [("color", "colour", 5)]),
        (("en-AU", "de-CH"), [("color", "Farbe", 5), ("one", "eins", 7)]),  # the file has it nowhere
    ],
)
def test_a_code_stands_for_its_language_or_for_itself_if_the_file_has_it(
    tmp_path: Path, languages: tuple[str, str], pairs: list[tuple[str, str, int]]
) -> None:
    assert read(tmp_path / "a", SEVERAL, *languages)[0] == pairs


SCRIPTS = memory(
    unit(zh_TW="電腦", zh_CN="电脑", en="computer"),
    unit(zh_HK="屏幕", zh="苹果", en="x"),
    unit(nb_NO="ja", en="y"),
)


@pytest.mark.parametrize(
    ("languages", "pairs"),
    [
        (("en", "zh-Hans"), [("computer", "电脑")]),
        (("en", "zh"), [("computer", "电脑"), ("x", "苹果")]),
        (("en", "zho_Hant"), [("computer", "電腦"), ("x", "屏幕")]),
        (("en", "zh-hk"), [("x", "屏幕")]),
        (("zh-Hans", "zh-Hant"), [("电脑", "電腦")]),
        (("zh", "zt"), [("电脑", "電腦"), ("苹果", "屏幕")]),
        (("no", "en"), [("ja", "y")]),
    ],
)
def test_a_text_is_in_the_script_that_is_asked_for(
    tmp_path: Path, languages: tuple[str, str], pairs: list[tuple[str, str]]
) -> None:
    assert [pair[:2] for pair in read(tmp_path / "a", SCRIPTS, *languages)[0]] == pairs


def test_a_language_that_a_file_has_in_another_script_only_is_read_if_no_script_is_asked_for(
    tmp_path: Path,
) -> None:
    content = memory(unit(en="computer", zh_TW="電腦"))
    assert read(tmp_path / "a", content, "en", "zh")[0] == [("computer", "電腦", 5)]
    with pytest.raises(DataError, match=r"a: has no text of the language zh-Hans; it has en, zh-TW$"):
        read(tmp_path / "a", content, "en", "zh-Hans")


def test_a_text_in_the_language_itself_is_closer_than_a_variety(tmp_path: Path) -> None:
    content = memory(unit(en_US="color", en="colour", de="Farbe"))
    assert read(tmp_path / "a", content)[0] == [("colour", "Farbe", 5)]


def test_the_attribute_of_earlier_versions_names_languages_too(tmp_path: Path) -> None:
    content = memory(*UNITS, head="<tmx version='1.1'>\n<body>\n").replace(b"xml:lang", b"lang")
    assert [pair[:2] for pair in read(tmp_path / "a", content)[0]] == [("one", "eins"), ("three", "drei")]


def test_units_on_one_line_have_different_numbers(tmp_path: Path) -> None:
    content = memory(*UNITS).replace(b"\n", b" ")
    assert read(tmp_path / "a", content)[0] == [("one", "eins", 1), ("three", "drei", 3)]


def entities(declarations: str) -> bytes:
    return memory(*UNITS, head=HEAD.replace(' SYSTEM "tmx14.dtd"', f" [{declarations}]"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (memory(*UNITS)[:-5], r"a:12:1: malformed XML, unclosed token; correct it, or export the file again"),
        (memory(*UNITS).replace(b"deux", b"&"), r"a:8:65: malformed XML, not well-formed"),
        (memory(*UNITS).replace(b"deux", b"\xff"), r"a:8:64: malformed XML, not well-formed"),
        (memory(*UNITS).replace(b"</body>", b""), r"a:12:3: malformed XML, mismatched tag"),
        (gzip.compress(memory(*UNITS), mtime=0)[:-9], "compressed data damaged or cut off"),
        (entities('<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">'), "a:2:27: the entity a, which is not read; rep"),
        (entities('<!ENTITY a SYSTEM "file:///etc/passwd">'), r"a:2:\d+: the entity a, which is not read"),
        (memory(unit(en="a&nbsp;b", de="c")), r"a:6:\d+: the entity nbsp, which is not read; replace it"),
        (
            memory(*UNITS, head=HEAD.replace("UTF-8", "x-y")),
            "a:1:.*unknown encoding: x-y; convert it to UTF-8 with iconv",
        ),
        (memory(*UNITS).decode().encode("utf-32"), "UTF-32; convert with iconv -f UTF-32 -t UTF-8"),
        (b'<?xml version="1.0"?>\n<xliff/>', "a:2:1: <xliff>, but a translation memory begins with <tmx>"),
        (b"<tmx>" + b"<tu>" * 101, r"a:1:\d+: more than 100 elements within each other"),
        (memory(), "has no units with languages; give a translation memory with some"),
        (memory(unit(en="a", fr="b"), unit(de="c", fr="d")), "no unit has both en and de; check"),
        (memory(unit(en="a", fr="b")), "a: has no text of the language de; it has en, fr$"),
    ],
)
def test_faults_are_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / "a", content)
    assert len(caught.value.messages) == 1


@pytest.mark.parametrize(
    ("languages", "exit_code", "message"),
    [
        (
            (None, "de"),
            2,
            "a: is a translation memory in DE, EN, de-DE, en, en-US, fr; choose two by --source-",
        ),
        (
            ("en", "en-ZZ"),
            3,
            "a: en and en-ZZ are the same here; it has DE, EN, .*, fr; choose two by --source-",
        ),
    ],
)
def test_languages_that_do_not_choose_two_are_refused_with_those_that_are_there(
    tmp_path: Path, languages: tuple[str | None, str], exit_code: int, message: str
) -> None:
    with pytest.raises(UserError, match=message.replace("--source-", "source_")) as caught:
        read(tmp_path / "a", memory(*UNITS), *languages)
    assert caught.value.exit_code == exit_code
    assert "--source-language and --target-language" in caught.value.lines()[0]


def test_more_text_than_may_be_is_an_error(tmp_path: Path) -> None:
    content = memory(*UNITS)
    read(tmp_path / "a", content, max_bytes=len(content))
    with pytest.raises(DataError, match=r"a: has more than max_bytes = 99 of text, in its first lines"):
        read(tmp_path / "a", content, max_bytes=99)


def test_a_large_memory_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx.gz"
    path.write_bytes(gzip.compress(memory(*[unit(en="word " * 500, de="Wort " * 500)] * 1_500), 1))
    files = CorpusFiles(pairs=path, source_language="en", target_language="de")
    tracemalloc.start()
    num_pairs = sum(1 for _ in files.read(CleaningReport()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num_pairs == 1_500
    assert peak < 2 << 20  # of 8 MB


def test_a_unit_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    content = HEAD.encode() + b"<tu><tuv><seg>" + b"x" * (17 << 20)
    with pytest.raises(DataError, match="more than 16,777,216 bytes without the end of a unit; split it"):
        read(tmp_path / "a", content)


def test_lines_of_pairs_may_speak_of_xml(tmp_path: Path) -> None:
    lines = '<?xml version="1.0"?>\t<?xml version="1.0"?>\n<tmx>\t<tmx>\n'
    assert [pair[0] for pair in read(tmp_path / "a", lines.encode())[0]] == ['<?xml version="1.0"?>', "<tmx>"]
