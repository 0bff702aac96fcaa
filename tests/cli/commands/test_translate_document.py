"""`translate --markup`: a document in, the same document with its texts translated out."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import allyouneed

RunCommand = Callable[..., tuple[int, bytes, str]]
PAGE = (
    "\ufeff<!DOCTYPE html>\r\n<p>sun <b>sees</b> moon &amp; star.</p><!-- sun -->\r\n<img alt='sun'>"
    '<ul><li>moon\n<li>sun <a title="moon">bird</a></ul>'
)


def tags(document: str) -> list[str]:
    return re.findall(r"<[^>]*>", document)


def test_a_document_comes_back_with_its_texts_translated(translate: RunCommand, toy_model: Path) -> None:
    code, out, err = translate(PAGE.encode(), "--markup", "html")
    assert (code, err) == (0, "")
    translator = allyouneed.load_translator(toy_model)
    sentence, moon, sun = (
        each.text for each in translator.translate(["sun sees moon & star.", "moon", "sun bird"])
    )
    found = out.decode()
    assert sorted(tags(found)) == sorted(tags(PAGE))
    assert found.startswith("\ufeff<!DOCTYPE html>\r\n<p>")
    paragraph, rest = found.removeprefix("\ufeff<!DOCTYPE html>\r\n").split("</p>")
    assert re.sub("<[^>]*>", "", paragraph) == sentence.replace("&", "&amp;")
    assert rest.startswith(f"<!-- sun -->\r\n<img alt='sun'><ul><li>{moon}\n<li>")
    assert re.sub("<[^>]*>", "", rest).split() == [*moon.split(), *sun.split()]
    [again] = translator.translate([PAGE], markup="html")
    assert again.text == found
    assert again.alignment is None
    assert again.tokens


def test_attributes_are_translated_if_they_are_named(translate: RunCommand, toy_model: Path) -> None:
    sun, moon = (each.text for each in allyouneed.load_translator(toy_model).translate(["sun", "moon"]))
    _, out, _ = translate(PAGE.encode(), "--markup", "html", "--attributes", "ALT, title")
    assert f"<img alt='{sun}'>" in out.decode()
    assert f'<a title="{moon}">' in out.decode()


def test_spans_and_terms_are_kept_within_tags(translate: RunCommand, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_bytes(b"moon\tZebra\n")
    page = b"<p>sun {name} <b>sees</b> the <i>moon</i> %s</p>"
    code, out, err = translate(page, "--markup", "html", "--keep", "--glossary", terms)
    assert (code, err) == (0, "")
    assert sorted(tags(out.decode())) == sorted(tags(page.decode()))
    for each in ("{name}", "%s", "Zebra"):
        assert out.decode().count(each) == 1


def test_text_without_tags_is_translated_as_lines_are(translate: RunCommand) -> None:
    for text in ("sun sees moon", "bird sees fish"):
        assert translate(text.encode(), "--markup", "html")[1] + b"\n" == translate(f"{text}\n".encode())[1]
    for nothing in (b"", b"<hr>\n", b"1 < 2\n"):
        assert translate(nothing, "--markup", "html") == (0, nothing, "")


@pytest.mark.parametrize(
    ("options", "document", "code", "message"),
    [
        (["--markup", "xml"], b"<a>\n<b></a>", 3, "standard input: line 2, column 1: <b> is not closed"),
        (
            ["--markup", "xml"],
            b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            3,
            "declarations are not accepted",
        ),
        (
            ["--markup", "xml"],
            b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a/>",
            3,
            "declarations are not",
        ),
        (
            ["--markup", "html"],
            b"<p>sun\n\xff",
            3,
            "standard input:2: byte 8 is not UTF-8; convert the document",
        ),
        (
            ["--markup", "html"],
            b" " * (2**25 + 1),
            3,
            "standard input: has more than 32 MiB; translate it in parts",
        ),
        (
            ["--markup", "html", "--jsonl"],
            b"",
            2,
            "--jsonl: is for lines, not for a file or --markup; leave it out",
        ),
        (
            ["--markup", "html", "--engine", "ray"],
            b"",
            2,
            "--engine ray: is for lines, not for a file or --markup",
        ),
        (["--attributes", "alt"], b"", 2, "--attributes: is for documents; add --markup html or xml"),
    ],
)
def test_what_cannot_be_translated_is_one_line_that_says_why(
    translate: RunCommand, options: list[str], document: bytes, code: int, message: str
) -> None:
    found = translate(document, *options)
    assert (found[0], found[1]) == (code, b"")
    assert message in found[2]
    assert found[2].count("\n") == 1


def test_markup_of_another_name_is_refused(toy_model: Path) -> None:
    with pytest.raises(allyouneed.UsageError, match="markup 'rtf': take html or xml"):
        allyouneed.load_translator(toy_model).translate(["a"], markup="rtf")
