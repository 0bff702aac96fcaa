"""Catalogues: which of their strings are translated, and that everything else stays as it is."""

import json

import pytest
from tests.files.shouting import SEEN, shouted, shouted_text

from allyouneed.errors import DataError
from allyouneed.files.formats import format_of
from allyouneed.files.translating import Translate

CATALOGUE = r"""# A comment
msgid ""
msgstr ""
"Language: \n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.c:3
#, c-format
msgid "A \"dog\" runs."
msgstr ""

#~ msgid "old"
#~ msgstr ""

msgctxt "menu"
msgid "one dog"
msgid_plural "many dogs"
msgstr[0] ""
msgstr[1] ""

msgid ""
"A man.\n"
"Two men."
msgstr ""

msgid "Done"
msgstr "Fertig"
"""


def test_entries_of_a_catalogue_without_a_translation_get_one() -> None:
    found = shouted_text("de.po", CATALOGUE)
    expected = CATALOGUE.replace('"Language: \\n"', '"Language: de\\n"')
    expected = expected.replace('runs."\nmsgstr ""', 'runs."\nmsgstr "A \\"DOG\\" RUNS."')
    expected = expected.replace('msgstr[0] ""', 'msgstr[0] "ONE DOG"').replace('[1] ""', '[1] "MANY DOGS"')
    expected = expected.replace('men."\nmsgstr ""', 'men."\nmsgstr ""\n"A MAN.\\n"\n"TWO MEN."')
    assert found == expected


def test_a_translated_catalogue_is_read_by_other_programs() -> None:
    polib = pytest.importorskip("polib")
    units = {unit.msgid: unit for unit in polib.pofile(shouted_text("de.po", CATALOGUE))}
    assert units["A man.\nTwo men."].msgstr == "A MAN.\nTWO MEN."
    assert units["one dog"].msgstr_plural == {0: "ONE DOG", 1: "MANY DOGS"}
    assert units["Done"].msgstr == "Fertig"
    assert units["old"].msgstr == ""
    assert not [unit for unit in units.values() if not unit.obsolete and not unit.translated()]


def test_values_of_json_are_translated_and_nothing_else_changes() -> None:
    content = (
        '{"@@locale": "en", "a" : "A dog",\n\t"@a": {"description": "no", "x": ["no"]}, "l": ["One", 4, "5"],'
        ' "n": {"x": "\\u00dcber {y} \\"it\\"\\n"}, "e": ""}'
    )
    found = shouted_text("app.arb", content)
    expected = content.replace('"en"', '"de"').replace("A dog", "A DOG").replace("One", "ONE")
    assert found == expected.replace('\\u00dcber {y} \\"it', '\\u00dcBER {Y} \\"IT')
    assert json.loads(found)["n"]["x"] == 'ÜBER {Y} "IT"\n'


def test_values_of_yaml_keep_their_style_and_comments() -> None:
    content = (
        """# dogs
en:
  a: A dog: no
""".replace("A dog: no", "A dog # here")
        + """  b: "Hi %{x}"
  c: |
    A man.
    Two men.

  d: [one cat, 'it''s']
  e: yes
  f: 12
  g: &x same
  h: *x
"""
    )
    found = shouted_text("en.yml", content)
    expected = content.replace("en:", "de:").replace("A dog", "A DOG").replace("Hi %{x}", "HI %{X}")
    expected = (
        expected.replace("A man.", "A MAN.").replace("Two men", "TWO MEN").replace("one cat", "ONE CAT")
    )
    assert found == expected.replace("it''s", "IT''S").replace("same", "SAME")


def test_a_yaml_string_that_would_mean_something_else_is_quoted() -> None:
    assert shouted_text("a.yaml", "a: y e s\nb: nul l\n") == "a: Y E S\nb: NUL L\n"
    assert shouted_text("a.yaml", "a: ńull x\nb: 'x: y'\n").endswith("b: 'X: Y'\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_values_of_apple_strings_are_translated(encoding: str) -> None:
    content = '/* "a" = "no"; */\n"key" = "A \\"dog\\" %@";\n// "b" = "no";\nplain = "Two";\n'
    found = shouted("Localizable.strings", content.encode(encoding)).decode(encoding)
    assert found == content.replace('A \\"dog', 'A \\"DOG').replace("Two", "TWO")


def test_equal_strings_are_translated_once() -> None:
    shouted_text("a.json", '["A dog", " A dog ", "A dog"]')
    assert SEEN == ["A dog"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.po", "A dog runs.", "no entries"),
        ("a.json", '{"a": "b"', "no JSON"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "a: [", "no YAML"),
        ("a.yaml", "[" * 3_000 + "]" * 3_000, "nested too deeply"),
        ("a.strings", "A dog runs.", "no strings"),
    ],
)
def test_what_is_no_catalogue_is_refused(name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        shouted_text(name, content)


def test_aliases_do_not_multiply() -> None:
    bomb = "a: &a [lol, lol]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
    )
    assert shouted_text("a.yaml", bomb) == bomb.replace("lol", "LOL")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("- Hello\n- World\n", "- HELLO\n- WORLD\n"),
        ("Hello", "HELLO"),
        ("a: [x, y, z]", "a: [X, Y, Z]"),
        ("a: >\n  One\n  two.\n\n  Three.\nb: c\n", "a: >\n  ONE TWO.\n\n  THREE.\nb: C\n"),
        ("a: |2\n   One\n  two\nb: c\n", 'a: " ONE\\nTWO\\n"\nb: C\n'),
        ("a: &x |2\n   One\nb: *x\n", 'a: &x " ONE\\n"\nb: *x\n'),
        ("a: >\n  One\n\n\n  Two.\n", "a: >\n  ONE\n\n\n  TWO.\n"),
        ("a: >\n  One\n    two\n", 'a: "ONE\\n  TWO\\n"\n'),
        ("a:\n  b: 'One\n\n    two'\n", 'a:\n  b: "ONE\\nTWO"\n'),
        ("a: |\r\n  One\r\n  two\r\n", "a: |\r\n  ONE\r\n  TWO\r\n"),
        ("en: x\nfr: y\n", "en: X\nfr: Y\n"),
    ],
)
def test_yaml_of_any_form_stays_what_it_was(content: str, expected: str) -> None:
    assert shouted_text("a.yaml", content) == expected
    import yaml

    before, after = yaml.safe_load(content), yaml.safe_load(expected)
    assert json.dumps(before).upper().replace("EN", "").replace("FR", "") == json.dumps(
        after
    ).upper().replace("EN", "").replace("FR", "")


def test_a_plain_text_with_signs_of_a_list_is_quoted() -> None:
    translate = Translate(lambda texts: [("ja, nein", None) for _ in texts], "en", "no")
    found = format_of("a.yaml").translated(b"en:\n  a: [x y, z]\n", translate).decode()
    assert (
        found == '"no":\n  a: ["ja, nein", "ja, nein"]\n'
        or found == '\'no\':\n  a: ["ja, nein", "ja, nein"]\n'
    )


def test_characters_beyond_16_bits_may_be_written_as_two() -> None:
    assert shouted_text("a.json", '["a \\ud83d\\ude00 ü"]') == '["A 😀 Ü"]'
    assert shouted_text("a.json", '["a \\ud83d", "ü"]') == '["a \\ud83d", "Ü"]'
    assert shouted_text("a.strings", '"k" = "a \\Ud83d\\Ude00";') == '"k" = "A 😀";'


def test_a_hidden_key_does_not_hide_what_follows() -> None:
    content = '[{"text": "Hello", "@type": "T"}, {"text": "World", "p": "12\\/3"}]'
    assert shouted_text("a.json", content) == content.replace("Hello", "HELLO").replace("World", "WORLD")


def test_the_only_plural_form_is_the_plural() -> None:
    entry = 'msgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    assert shouted_text("ja.po", entry).endswith('msgstr[0] "%D FILES"\n')
    odd = 'msgid "a\\x41 \\a"\nmsgstr ""\n'
    assert shouted_text("a.po", odd) == odd


@pytest.mark.parametrize(
    ("text", "expected", "seen"),
    [
        ("A <b>big dog</b> &amp; cat", "A <b>BIG DOG</b> &AMP; CAT", "A big dog &amp; cat"),
        ('See <0>the <a href="{x}">list</a></0>', 'SEE <0>THE <a href="{x}">LIST</a></0>', "See the list"),
        ("one<br>two", "ONE<br>TWO", "one two"),
        ("Name:\tAge", "NAME:\tAGE", "Name: Age"),
        ("A  <b>big  dog</b>  runs", "A  <b>BIG  DOG</b>  RUNS", "A  big  dog  runs"),
        ("{n, plural, other {<b>#</b> dogs}}", "{N, PLURAL, OTHER {<B>#</B> DOGS}}", None),
        ("Write `<b>` and a <b>dog</b>", "WRITE `<B>` AND A <B>DOG</B>", None),
        ("By Jane <jane@x.org>", "BY JANE <JANE@X.ORG>", None),
        ("I <3 <b>you</b>", "I <3 <B>YOU</B>", None),
        ("a < b and <!-- c", "A < B AND <!-- C", None),
    ],
)
def test_tags_stand_around_their_words_unless_they_are_part_of_something_else(
    text: str, expected: str, seen: str | None
) -> None:
    """What the model would see is the whole text if its tags are text."""
    assert json.loads(shouted_text("a.json", json.dumps([text]))) == [expected]
    assert " ".join(SEEN) == (seen or text)


def test_long_words_of_apple_strings_take_no_time() -> None:
    word = "a" * 200_000
    assert shouted_text("a.strings", f'"k" = "v";\n{word}\n') == f'"k" = "V";\n{word}\n'


def test_a_template_of_gettext_becomes_a_catalogue() -> None:
    content = (
        'msgid ""\nmsgstr ""\n"Language: \\n"\n"Content-Type: text/plain; charset=CHARSET\\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n'
        'msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    found = shouted_text("messages.pot", content)
    expected = content.replace('"Language: ', '"Language: de').replace("CHARSET", "UTF-8")
    expected = expected.replace("INTEGER", "2").replace("EXPRESSION", "(n != 1)")
    assert found == expected.replace('[0] ""', '[0] "A DOG"').replace('[1] ""', '[1] "DOGS"')
