"""What clients are told of wrong values, in every protocol: our words, and none of pydantic's."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from allyouneed.serve.protocols.own import (
    AttentionBody,
    DetectBody,
    OneTextBody,
    ParseBody,
    TranslateBody,
)
from allyouneed.serve.refusals import Body, wrong_values

BODIES = TranslateBody, OneTextBody, ParseBody, AttentionBody, DetectBody
PYDANTICS = (
    *("input should", "inputs are not", "field required", "pydantic"),
    *(f"valid {kind}" for kind in ("string", "integer", "number", "boolean", "list", "dictionary")),
)


def told(body: type[Body], value: Any) -> str | None:
    """What is told of a value; None if it is right."""
    try:
        TypeAdapter(body).validate_python(value, from_attributes=True)  # as FastAPI does
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        return wrong_values(found, frozenset(body.model_fields)).message
    return None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "text must be a text or a list"),
        ({"text": 3}, "text must be a text or a list"),
        ({"text": {"a": "b"}}, "text must be a text or a list"),
        ({"text": ["sun", 3]}, "text.1 must be a text"),
        ({"text": ["sun"] * 65}, "text must have at most 64 values"),
        ({"text": "\ud800"}, "text must be Unicode without lone surrogates"),
        ({"text": "s" * 1_000_001}, "text must have at most 1000000 characters"),
        ({"source": ""}, "source must have at least 1 characters"),
        ({"source": "e" * 33}, "source must have at most 32 characters"),
        ({"source": ["en"]}, "source must be a text"),
        ({"model": "a/b"}, "model must be a name of letters, digits, '.', '_' and '-'"),
        ({"n_best": 0}, "n_best must be at least 1"),
        ({"n_best": 17}, "n_best must be at most 16"),
        ({"n_best": "2"}, "n_best must be a whole number"),
        ({"n_best": 1.5}, "n_best must be a whole number"),
        ({"n_best": True}, "n_best must be a whole number"),
        ({"n_best": None}, "n_best must be a whole number"),
        ({"length_penalty": "1"}, "length_penalty must be a number"),
        ({"length_penalty": -0.5}, "length_penalty must be at least 0.0"),
        ({"length_penalty": 11}, "length_penalty must be at most 10.0"),
        ({"alignments": 1}, "alignments must be true or false"),
        ({"sourc": "en"}, "sourc is an unknown field; did you mean 'source'?"),
        ({"a text, no name": 1}, "the body has an unknown field; known are alignments, beam_size, "),
        ({"x": 1}, "x is an unknown field; known are alignments, beam_size, "),
    ],
    ids=lambda each: str(each)[:40],
)
def test_wrong_fields_in_words(change: dict[str, Any], message: str) -> None:
    assert (told(TranslateBody, {"text": "sun"} | change) or "").startswith(message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "text is missing"),
        ({"txt": "a"}, "txt is an unknown field; did you mean 'text'?"),
        ([], "the body must be an object"),
        (None, "the body must be an object"),
    ],
)
def test_wrong_bodies_in_words(body: Any, message: str) -> None:
    assert told(TranslateBody, body) == message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(body=st.sampled_from(BODIES), data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_value_provokes_an_error_without_words(body: type[Body], data: st.DataObject) -> None:
    names = st.sampled_from([*sorted(body.model_fields), "unknown"])
    message = told(body, data.draw(VALUES | st.dictionaries(names, VALUES, max_size=4)))
    assert "has a wrong value" not in (message or ""), message


BROKEN: tuple[Any, ...] = (None, 3, [], {}, [3], {"a": [1]}, "", "\ud800", True, 1e99)
REQUESTS: dict[str, dict[str, Any]] = {
    "/api/translate": {"text": "sun", "source": "en", "target": "de", "n_best": 1, "x": 1},
    "/api/parse": {"text": "sun", "model": "trees"},
    "/api/attention": {"text": "sun", "translation": "nuso", "model": "ende"},
    "/translate": {"q": "sun", "source": "en", "target": "de", "format": "text", "alternatives": 1},
    "/detect": {"q": "sun"},
    "/v2/translate": {"text": ["sun"], "target_lang": "DE", "source_lang": "EN", "formality": "default"},
    "/v1/chat/completions": {
        **{"model": "en-de", "messages": [{"role": "user", "content": "sun"}], "n": 1, "stop": "x"},
        **{"stream": False, "stream_options": {}, "tools": []},
    },
}


@pytest.mark.parametrize("path", REQUESTS)
def test_no_protocol_speaks_of_pydantic(client: httpx.Client, path: str) -> None:
    whole = REQUESTS[path]
    changed = [whole | {name: value} for name in whole for value in BROKEN]
    missing = [{key: each for key, each in whole.items() if key != name} for name in whole]
    for body in [*changed, *missing, *BROKEN]:
        answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code < 500
        if answer.status_code >= 400:
            assert not [each for each in PYDANTICS if each in answer.text.lower()], (body, answer.text)
