"""A JSON object is read as the standard has it, and everything else is refused in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allyouneed.data.strict_json import JSONFault, parse_object, parse_value
from allyouneed.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda values: st.lists(values) | st.dictionaries(TEXT, values),
)


@settings(max_examples=40)
@given(st.dictionaries(TEXT, VALUES), st.booleans())
def test_any_object_is_read_as_it_was_written(value: dict[str, object], ensure_ascii: bool) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ensure_ascii)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value at character 1"),
        ('{"a": 1', "at character 8"),
        ('{"a": 1} {}', "Extra data at character 10"),
        ("[1]", "an object is wanted"),
        ("null", "an object is wanted"),
        ('{"a": 1, "a": 1}', "the key 'a' occurs twice"),
        ('{"b": {"a": 1, "a": 2}}', "the key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ('{"a": 1e999}', "1e999 is too large"),
        ('{"a": [-1e400]}', "-1e400 is too large"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ('{"\\udfff": 1}', "half a surrogate pair"),
        ('{"a": ' + "[" * 100_000, "nested too deep"),
        ('{"a": ' + "9" * 5_000 + "}", "digits"),
        ('{"a": "\t"}', "Invalid control character at character 8"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=r"^no JSON object \(.*\); write") as caught:
        parse_object(text)
    assert reason in caught.value.messages[0]
    assert caught.value.label == "E-JSON"


def test_the_number_of_keys_of_an_object_is_limited_if_asked() -> None:
    text = '[{"a": 1, "b": {"c": 1, "d": 2}}]'
    assert parse_value(text) == parse_value(text, 2) == [{"a": 1, "b": {"c": 1, "d": 2}}]
    with pytest.raises(JSONFault, match=r"^an object has more than 1 keys$"):
        parse_value(text, 1)


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert parse_object('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
