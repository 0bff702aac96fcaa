"""OpenAI's protocol, with its own client over real connections."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, SETTINGS, StartServer, running

import allyouneed
from allyouneed.serve.application import create_app
from allyouneed.serve.models import ServedModel
from allyouneed.serve.process import serving
from allyouneed.serve.protocols import openai as protocol
from allyouneed.serve.protocols.openai import read_completion
from allyouneed.serve.protocols.protocol import ErrorForms, answer_errors
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.service import Service

Offline = Callable[[str], str]
MESSAGES: list[Any] = [
    {"role": "system", "content": "You are a translator."},
    {"role": "user", "content": "star"},
    {"role": "assistant", "content": "ratso"},
    {"role": "user", "content": "sun moon\nbear"},
    {"role": "assistant", "content": "Is this right?"},
]
BODY: dict[str, Any] = {"model": "en-de", "messages": MESSAGES}


@pytest.fixture(scope="module")
def address(models: list[ServedModel]) -> Iterator[str]:
    settings = replace(SETTINGS, most_characters=100)
    with serving(models, DECODING, settings) as service:
        app = FastAPI()
        app.include_router(protocol.routes(service))
        answer_errors(app, ErrorForms([protocol.PROTOCOL]))
        with running(app) as address:
            yield address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[openai.OpenAI]:
    url = f"{address}/v1"
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{address}/v1", timeout=PATIENCE_SECONDS) as http:
        yield http


@pytest.fixture(scope="module")
def offline(models: list[ServedModel]) -> Offline:
    """Translates lines without a server."""
    translator: Any = models[0].loaded
    return lambda text: "\n".join(translator.translate([line])[0].text for line in text.split("\n"))


def test_models_and_directions_are_listed(client: openai.OpenAI) -> None:
    found = client.models.list().data
    assert [each.id for each in found] == ["ende", "defr", "en-de", "de-fr", "en-fr"]
    assert {each.owned_by for each in found} == {"allyouneed"}
    assert client.models.retrieve("en-fr") == found[4]
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("trees")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


DE_FR = "Translate from German to French:"


@pytest.mark.parametrize(
    ("model", "prompt", "text", "expected"),
    [
        ("en-de", "You are a translator. Translate to German.", "sun", "en-de sun"),
        ("en-de", "", "Translate to German: sun", "en-de sun"),
        ("ende", "", "Translate the text from English to German:\n\nsun", "en-de sun"),
        ("en-de", "Translate into French.", "sun moon", "en-fr sun moon"),
        ("en-de", "Translate into French.", "Translate to German: sun moon", "en-de sun moon"),
        ("en-de", "", f"{DE_FR} sun moon", "de-fr sun moon"),
        ("ende", "Translate de-fr", "sun moon", "de-fr sun moon"),
        ("de-fr", "", "Translate to German: the sun and the moon", "en-de the sun and the moon"),
        ("en-de", "Answer in verse.", "Translate this: sun", "en-de Translate this: sun"),
        ("en-de", "", f"sun. {DE_FR} sun", f"en-de sun. {DE_FR} sun"),
    ],
)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_choose_the_direction_and_are_not_translated(
    client: openai.OpenAI, role: Any, model: str, prompt: str, text: str, expected: str
) -> None:
    messages: list[Any] = [{"role": role, "content": prompt}, {"role": "user", "content": text}]
    direction, _, plain = expected.partition(" ")
    same: list[Any] = [{"role": "user", "content": plain}]
    found, wanted = (
        client.chat.completions.create(model=name, messages=each)
        for name, each in ((model, messages), (direction, same))
    )
    assert found.choices[0].message.content == wanted.choices[0].message.content
    assert found.model == model


@pytest.mark.parametrize("role", ["system", "user"])
def test_a_direction_that_is_not_served_is_refused(client: openai.OpenAI, role: Any) -> None:
    messages: list[Any] = [
        {"role": role, "content": [{"type": "text", "text": "Translate to Dutch: sun"}]},
        {"role": "user", "content": "Translate to Dutch: sun"},
    ]
    with pytest.raises(openai.NotFoundError, match=r"No model translates as the messages ask; GET") as caught:
        client.chat.completions.create(model="en-de", messages=messages)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "messages")


@pytest.mark.parametrize("model", ["en-de", "ende"])
def test_the_last_message_of_the_user_is_translated(
    client: openai.OpenAI, offline: Offline, model: str
) -> None:
    found = client.chat.completions.create(model=model, messages=MESSAGES, temperature=0.3, seed=1)
    [choice] = found.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == offline("sun moon\nbear")
    assert choice.finish_reason == "stop"
    assert (found.object, found.model) == ("chat.completion", model)
    assert found.usage
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert found.usage.prompt_tokens > 0 < found.usage.completion_tokens


def test_a_translation_that_was_cut_says_so(toy_model: Path, models: list[ServedModel]) -> None:
    translator = allyouneed.load_translator(toy_model, device="cpu")
    translator.config = translator.config.replace(search={"max_length": 3})
    [cut] = translator.translate(["sun moon"])
    assert cut.is_cut
    model = replace(models[0], name="cut", loaded=translator)
    with serving([model], DECODING, SETTINGS) as service, running(create_app(service, SETTINGS)) as address:
        with openai.OpenAI(base_url=f"{address}/v1", api_key="any", timeout=PATIENCE_SECONDS) as client:
            asked: dict[str, Any] = {"model": "cut", "messages": [{"role": "user", "content": "sun moon"}]}
            [choice] = client.chat.completions.create(**asked).choices
            with client.chat.completions.create(**asked, stream=True) as stream:
                *_, last = stream
        body = {"model": "cut", "text": "sun moon"}
        [found] = httpx.post(f"{address}/api/translate", json=body).json()["results"]
    assert (choice.message.content, choice.finish_reason) == (cut.text, "length")
    assert last.choices[0].finish_reason == "length"
    assert found["notices"] == ["its translation did not end within the maximum length and was cut"]


def test_a_direction_may_need_two_models(client: openai.OpenAI, models: list[ServedModel]) -> None:
    first, second = (model.loaded for model in models[:2])
    between: Any = first
    last: Any = second
    expected = last.translate([between.translate(["sun"])[0].text])[0].text
    found = client.chat.completions.create(model="en-fr", messages=[{"role": "user", "content": "sun"}])
    assert found.choices[0].message.content == expected


def test_a_message_may_have_parts(client: openai.OpenAI, offline: Offline) -> None:
    parts: list[Any] = [{"type": "text", "text": "sun"}, {"type": "text", "text": " moon"}]
    found = client.chat.completions.create(model="en-de", messages=[{"role": "user", "content": parts}])
    assert found.choices[0].message.content == offline("sun moon")


@pytest.mark.parametrize("n", [2, 16])
def test_choices_are_translations(client: openai.OpenAI, models: list[ServedModel], n: int) -> None:
    translator: Any = models[0].loaded
    beam_size = max(n, translator.config.search.beam_size)
    [expected] = translator.stream(["sun moon"], n_best=n, beam_size=beam_size)
    found = client.chat.completions.create(
        model="en-de", messages=[{"role": "user", "content": "sun moon"}], n=n
    )
    assert [each.message.content for each in found.choices] == [each.text for each in expected]
    assert [each.index for each in found.choices] == list(range(n))


@pytest.mark.parametrize("model", ["en-de", "en-fr"])
def test_a_stream_has_the_same_translation_in_chunks(client: openai.OpenAI, model: str) -> None:
    messages: list[Any] = [
        {"role": "user", "content": "sun moon\nbear\n" * 7}
    ]  # enough to grow piece by piece
    whole = client.chat.completions.create(model=model, messages=messages)
    with client.chat.completions.create(model=model, messages=messages, stream=True) as stream:
        chunks = list(stream)
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == whole.choices[0].message.content
    assert [each.choices[0].finish_reason for each in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({each.id for each in chunks}) == 1
    pieces = [chunk for chunk in chunks if chunk.choices[0].delta.content]
    assert len(pieces) >= 1 if model == "en-fr" else len(chunks) > 3  # of two models, all may come at once
    assert all(each.usage is None for each in chunks)


def test_a_stream_may_end_with_the_usage(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**BODY)
    with client.chat.completions.create(
        **BODY, stream=True, stream_options={"include_usage": True}
    ) as stream:
        *chunks, last = stream
    assert last.usage == whole.usage
    assert last.choices == []
    assert all(each.usage is None for each in chunks)


def test_a_stream_is_of_events_and_ends_with_done(http: httpx.Client) -> None:
    response = http.post("/chat/completions", json=BODY | {"stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, empty = response.text.split("\n\n")
    assert (done, empty) == ("data: [DONE]", "")
    assert {json.loads(each.removeprefix("data: "))["object"] for each in events} == {"chat.completion.chunk"}


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": "gpt-4o"}, "model", "model_not_found"),
        ({"model": "de-en"}, "model", "model_not_found"),
        ({"model": "-de"}, "model", "model_not_found"),
        ({"model": "en-"}, "model", "model_not_found"),
        ({"model": "-"}, "model", "model_not_found"),
        ({"model": "-" * 9_999}, "model", "model_not_found"),
        ({"model": None}, None, None),
        ({"model": 3}, "model", "invalid_type"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": "sun"}, "messages", "invalid_type"),
        ({"messages": []}, "messages", None),
        ({"messages": [{"role": "system", "content": "sun"}]}, "messages", None),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "invalid_type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
            "invalid_value",
        ),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 17}, "n", "invalid_value"),
        ({"n": True}, "n", "invalid_type"),
        ({"n": 2, "stream": True}, "n", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", None),
        ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
        ({"stop": 3}, "stop", "invalid_type"),
        ({"stop": ["a", None]}, "stop", "invalid_type"),
        ({"stop": {"a": "b"}}, "stop", "invalid_type"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "array_above_max_length"),
        ({"audio": {"voice": "ash"}}, "audio", "unsupported_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"messages": [{"role": "user", "content": "sun " * 26}]}, None, "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_wrong_fields_are_named(
    http: httpx.Client, fields: dict[str, Any], param: str | None, code: str | None, stream: bool
) -> None:
    wrong_only_without_stream = fields.keys() & {"n", "stream", "stream_options"}
    response = http.post(
        "/chat/completions",
        json=BODY | ({"stream": True} if stream and not wrong_only_without_stream else {}) | fields,
    )
    error = response.json()["error"]
    assert response.status_code == (404 if code == "model_not_found" else 400)
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert error["message"]


def test_values_that_ask_for_nothing_are_accepted(http: httpx.Client) -> None:
    fields: dict[str, Any] = {
        "n": 1,
        "tools": [],
        "response_format": {"type": "text"},
        "logprobs": False,
    }
    assert http.post("/chat/completions", json=BODY | fields | {"max_tokens": 5}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"model": "a", "model": "b"}', b'{"n": NaN}'])
def test_what_is_no_json_is_refused(http: httpx.Client, body: bytes) -> None:
    response = http.post("/chat/completions", content=body)
    assert response.status_code == 400
    assert "could not parse the JSON body" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_fields_of_sampling_and_of_other_servers_have_no_effect(
    http: httpx.Client, offline: Offline, stream: bool
) -> None:
    ignored = {
        **{
            "temperature": 0,
            "top_p": 0.9,
            "top_k": 20,
            "min_p": 0.1,
            "typical_p": 1,
            "repetition_penalty": 1.1,
        },
        **{"frequency_penalty": 1, "presence_penalty": 1, "logit_bias": {"50256": -100}, "seed": 1},
        **{
            "max_tokens": 5,
            "max_completion_tokens": 5,
            "ignore_eos": False,
            "guided_json": {"type": "object"},
        },
        **{"thinking": {"type": "disabled"}, "enable_thinking": False, "reasoning_effort": "low"},
        **{"chat_template_kwargs": {"enable_thinking": False}, "keep_alive": "5m", "options": {"num_ctx": 9}},
        **{"provider": {"order": ["x"]}, "service_tier": "auto", "store": True, "metadata": {"a": "b"}},
        **{
            "user": "me",
            "safety_identifier": "me",
            "prompt_cache_key": "k",
            "verbosity": "low",
            "x" * 99: None,
        },
    }
    response = http.post("/chat/completions", json=BODY | ignored | {"stream": stream})
    assert response.status_code == 200
    assert response.text == "" or offline("sun moon").split()[0] in response.text


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("###", "noomo ratso\nnuso"),
        (["so", "o r"], "noom"),
        ("\n", "noomo ratso"),
        (["", "\nn"], "noomo ratso"),
        (["mo ratso\nnuso", "ats"], "noomo r"),
        ("noo", ""),
        ([], "noomo ratso\nnuso"),
        (None, "noomo ratso\nnuso"),
    ],
)
def test_a_translation_ends_before_the_first_stop_sequence(
    client: openai.OpenAI, stop: Any, expected: str
) -> None:
    asked: dict[str, Any] = {
        "model": "en-de",
        "messages": [{"role": "user", "content": "moon star\nsun"}],
        "stop": stop,
    }
    [choice] = client.chat.completions.create(**asked).choices
    assert (choice.message.content, choice.finish_reason) == (expected, "stop")
    with client.chat.completions.create(**asked, stream=True) as stream:
        chunks = [chunk.choices[0] for chunk in stream]
    assert "".join(each.delta.content or "" for each in chunks) == expected
    assert chunks[-1].finish_reason == "stop"


@given(st.text("ab", max_size=12), st.lists(st.text("ab", max_size=3), max_size=4))
def test_what_a_stream_has_shown_is_the_beginning_of_what_is_cut(text: str, stops: list[str]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stop": stops}
    asked = read_completion(body)
    whole, is_cut = asked.cut(text)
    shown = [asked.certain(text[:end]) for end in range(len(text) + 1)]
    assert all(whole.startswith(each) for each in shown)
    assert shown == sorted(shown, key=len)
    ends = [
        text[:end] for end in range(len(text) + 1) for stop in stops if stop and text[:end].endswith(stop)
    ]
    assert is_cut == bool(ends)
    assert whole == (
        min((ends[0].removesuffix(stop) for stop in stops if ends[0].endswith(stop)), key=len)
        if ends
        else text
    )


@pytest.mark.parametrize("model", ["EN-DE", "eng-deu", "en-GB-de-AT", "en_us-de"])
def test_a_direction_may_be_named_by_other_codes(client: openai.OpenAI, offline: Offline, model: str) -> None:
    found = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "sun"}])
    assert (found.choices[0].message.content, found.model) == (offline("sun"), model)
    assert client.models.retrieve(model).id == model


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_other_paths_are_answered_in_the_same_form(http: httpx.Client, method: str) -> None:
    for path in ("/embeddings", "/", "/audio/speech"):
        response = http.request(method, path)
        assert response.status_code == 404
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_refusal_in_a_stream_that_has_begun_is_an_error_of_the_client(
    client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaking(*_: object) -> Any:
        yield "nuso"
        raise Refusal(504, "deadline", "not done in time")

    monkeypatch.setattr(Service, "stream", breaking)
    with (
        client.chat.completions.create(**BODY, stream=True) as stream,
        pytest.raises(openai.APIError, match="not done in time"),
    ):
        list(stream)


@pytest.mark.parametrize(
    ("refusal", "status", "kind", "code"),
    [
        (Refusal(401, "no_token", "send a token"), 401, "invalid_request_error", "invalid_api_key"),
        (Refusal(429, "queue_full", "busy"), 429, "rate_limit_error", "rate_limit_exceeded"),
        (Refusal(503, "stopping", "stopping"), 503, "server_error", "stopping"),
        (Refusal(504, "deadline", "late"), 504, "server_error", "deadline"),
        (Refusal(422, "encoding", "wrong"), 400, "invalid_request_error", "encoding"),
    ],
)
def test_refusals_have_openais_form(refusal: Refusal, status: int, kind: str, code: str) -> None:
    response = protocol.error_response(refusal)
    error = json.loads(bytes(response.body))["error"]
    assert response.status_code == status
    assert error == {"message": refusal.message, "type": kind, "param": None, "code": code}


def test_a_refusal_keeps_its_headers() -> None:
    response = protocol.error_response(Refusal(429, "queue_full", "busy", {"Retry-After": "2"}))
    assert response.headers["Retry-After"] == "2"


def test_the_clients_key_is_the_servers_token(start_server: StartServer, offline: Offline) -> None:
    url = start_server(token="secret-token") + "/v1"
    with openai.OpenAI(base_url=url, api_key="secret-token", max_retries=0) as client:
        found = client.chat.completions.create(**BODY)
        assert found.choices[0].message.content == offline("sun moon\nbear")
        with client.chat.completions.create(**BODY, stream=True) as stream:
            streamed = "".join(each.choices[0].delta.content or "" for each in stream)
        assert streamed == offline("sun moon\nbear")
    with (
        openai.OpenAI(base_url=url, api_key="another", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.models.list()
    assert caught.value.code == "invalid_api_key"
