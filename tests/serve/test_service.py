"""What all protocols share, with real models."""

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.patience import wait_in_loop
from tests.serve.conftest import DECODING, SETTINGS

from allyouneed.config.run import SearchSettings
from allyouneed.errors import ModelError, UsageError
from allyouneed.serve import process
from allyouneed.serve.models import (
    ModelSource,
    ServedModel,
    direction_of,
    load_models,
    newer,
    with_settings,
)
from allyouneed.serve.process import serving
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions, Translated
from allyouneed.serve.service import Service
from allyouneed.storage.run_directory import resolve_model

Result = TypeVar("Result")
CPU = "cpu"


def run(work: Awaitable[Result]) -> Result:
    async def main() -> Result:
        return await work

    return asyncio.run(main())


def refused(call: Callable[[], Awaitable[Any]]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        run(call())
    return caught.value


def test_a_text_is_translated_as_by_the_command(service: Service, models: list[ServedModel]) -> None:
    texts = ["sun moon", "star", "wolf sees bear"]
    translator: Any = models[0].loaded
    expected = translator.translate(texts, split_sentences=True)
    found = run(service.translate(texts, RequestOptions("en", "de")))
    assert [each.translations for each in found] == [[translation] for translation in expected]
    assert {(each.source, each.target, each.models) for each in found} == {("en", "de", ("ende",))}


def test_white_space_is_kept(service: Service) -> None:
    [found] = run(
        service.translate([" sun\r\n\n  \nmoon star\n"], RequestOptions("en", "de", alignments=True))
    )
    [best] = found.translations
    assert best.text == " nuso\r\n\n  \nnoomo ratso\n"
    assert best.alignment == [(0, 0), (1, 1), (2, 2)]
    assert [segment[1:] for segment in found.segments] == [("nuso", " "), ("noomo ratso", "\r\n\n  \n")]
    assert found.num_tokens[0] > 0 < found.num_tokens[1]
    for text in (" \n", "\t", "\u3000"):
        [blank] = run(service.translate([text], RequestOptions("en", "de")))
        assert blank.translations[0].text == text


def test_sentences_without_letters_stay_as_they_are_and_count_as_segments(service: Service) -> None:
    ask = RequestOptions("en", "de", n_best=2, alignments=True)
    [only, among] = run(service.translate(["10:30", "Sun. 10:30.  Star."], ask))
    assert [each.text for each in only.translations] == ["10:30"]
    assert all(" 10:30.  " in each.text for each in among.translations)
    assert [(each.source, each.before) for each in among.segments] == [
        ("Sun.", ""),
        ("10:30.", " "),
        ("Star.", "  "),
    ]
    assert (1, among.translations[0].text.split().index("10:30.")) in (among.translations[0].alignment or ())
    assert run(service.alternatives("10:30", RequestOptions("en", "de"))) == []


def test_a_stream_holds_sentences_without_letters(service: Service) -> None:
    async def told() -> list[Any]:
        return [
            each async for each in service.stream("Sun. 10:30. Star moon bear", RequestOptions("en", "de"))
        ]

    *growing, whole = run(told())
    text = whole.translations[0].text
    assert " 10:30. " in text
    assert growing == sorted(growing, key=len)
    assert all(text.startswith(each) for each in growing)


def test_a_third_language_joins_two_models(service: Service, models: list[ServedModel]) -> None:
    first, second = (model.loaded for model in models[:2])
    assert [(each.source, each.target, each.models) for each in service.directions] == [
        ("en", "de", ("ende",)),
        ("de", "fr", ("defr",)),
        ("en", "fr", ("ende", "defr")),
    ]
    [found] = run(service.translate(["sun moon"], RequestOptions("en", "fr", n_best=2, alignments=True)))
    between: Any = first
    last: Any = second
    [german] = between.translate(["sun moon"])
    assert found.translations == next(last.stream([german.text], n_best=2))  # without alignments
    assert (found.source, found.target, found.models) == ("en", "fr", ("ende", "defr"))
    assert service.languages == {"de": "German", "en": "English", "fr": "French"}


def test_a_stream_grows_to_the_translation(service: Service) -> None:
    async def all_of(ask: RequestOptions) -> list[str | Translated]:
        return [each async for each in service.stream("sun moon\nbear", ask)]

    for target in ("de", "fr"):
        *certain, last = run(all_of(RequestOptions("en", target)))
        assert isinstance(last, Translated)
        text = last.translations[0].text
        assert certain
        assert all(isinstance(each, str) and text.startswith(each) for each in certain)
        assert sorted(map(str, certain), key=len) == certain
        assert certain[-1] == text


def test_alternatives_over_a_third_language_are_those_of_the_last_model(service: Service) -> None:
    [german] = run(service.translate(["sun moon"], RequestOptions("en", "de")))
    expected = run(service.alternatives(german.translations[0].text, RequestOptions("de", "fr")))
    found = run(service.alternatives("sun moon", RequestOptions("en", "fr", alignments=True)))
    assert found == expected  # without alignments


def test_sentences_are_parsed(service: Service) -> None:
    [parse] = run(service.parse(["the sun sees the moon ."]))
    assert str(parse).startswith("(TOP (S (NP")
    assert refused(lambda: service.parse(["the sun"], "ende")).status == 404


def test_attention_is_that_of_one_model(service: Service) -> None:
    document = run(service.attention("moon star", None, RequestOptions("en", "de")))
    assert document["sequences"]["written"]["text"] == "noomo ratso"
    document = run(service.attention("moon star", "nuso", RequestOptions("en", "de")))
    assert document["sequences"]["written"]["text"] == "nuso"
    document = run(service.attention("the sun sees the moon .", None, RequestOptions(model="trees")))
    assert document["sequences"]["source"]["text"] == "the sun sees the moon ."
    assert refused(lambda: service.attention("sun " * 251, None, RequestOptions("en", "de"))).status == 413
    refusal = refused(lambda: service.attention("sun", None, RequestOptions("en", "fr")))
    assert (refusal.status, refusal.label) == (422, "several_models")


@pytest.mark.parametrize(
    ("ask", "status", "label"),
    [
        (RequestOptions("en", "en"), 404, "no_direction"),
        (RequestOptions("xx", "de"), 404, "no_direction"),
        (RequestOptions(), 422, "which_direction"),
        (RequestOptions(model="nobody"), 404, "no_model"),
        (RequestOptions(model="trees"), 404, "no_model"),
        (RequestOptions("fr", model="ende"), 422, "other_languages"),
        (RequestOptions("en", "de", n_best=17), 422, "out_of_range"),
        (RequestOptions("en", "de", n_best=0), 422, "out_of_range"),
        (RequestOptions("en", "de", n_best=5, search=SearchSettings(beam_size=4)), 422, "out_of_range"),
        (RequestOptions("en", "de", prefix="\ud800"), 422, "utf8"),
    ],
    ids=str,
)
def test_what_cannot_be_translated_is_refused(
    service: Service, ask: RequestOptions, status: int, label: str
) -> None:
    refusal = refused(lambda: service.translate(["sun"], ask))
    assert (refusal.status, refusal.label) == (status, label)


def test_the_rest_of_a_direction_is_found(service: Service) -> None:
    assert run(service.translate(["sun"], RequestOptions(target="de")))[0].models == ("ende",)
    assert run(service.translate(["nuso"], RequestOptions(model="defr")))[0].target == "fr"
    assert run(service.translate(["nuso"], RequestOptions("de")))[0].target == "fr"
    [detected] = run(
        service.translate(["The weather is very nice today, is it not?"], RequestOptions("auto", "de"))
    )
    assert detected.source == "en"
    assert detected.confidence is not None
    assert detected.confidence > 0.5


def test_a_text_in_the_target_language_stays_as_it_is(service: Service) -> None:
    texts = ["  Das ruhige Kind kennt die Frau.\n\nSie ist jung. ", "The weather is very nice today."]
    german, english = run(service.translate(texts, RequestOptions("auto", "de", n_best=2, alignments=True)))
    assert [each.text for each in german.translations] == texts[:1]
    assert (german.source, german.target, german.models) == ("de", "de", ())
    assert "".join(each.before + each.text for each in german.segments) == german.translations[0].text
    assert german.notices == ("the text is in the target language already and stays as it is",)
    assert german.confidence is not None
    assert german.confidence > 0.9
    assert (english.source, english.models) == ("en", ("ende",))

    async def streamed() -> list[str | Translated]:
        return [each async for each in service.stream(texts[0], RequestOptions("auto", "de", n_best=2))]

    assert run(streamed()) == [german]
    sentence = "Das ruhige Kind kennt die junge Frau."
    assert [each.text for each in run(service.alternatives(sentence, RequestOptions("auto", "de")))] == [
        sentence
    ]
    assert (
        refused(lambda: service.attention(sentence, None, RequestOptions("auto", "de"))).label
        == "several_models"
    )
    assert service.metrics.num_characters == len(texts[1])


def test_long_texts_and_many_are_refused(service: Service) -> None:
    refusal = refused(lambda: service.translate(["a" * 5_001], RequestOptions("en", "de")))
    assert (refusal.status, refusal.label) == (413, "too_long")
    assert "5,000" in refusal.message
    assert refused(lambda: service.translate(["a"] * 65, RequestOptions("en", "de"))).status == 413


def test_a_client_that_goes_stops_the_work(service: Service) -> None:
    async def leave() -> None:
        slow = SearchSettings(min_length=900, max_length=1_000, max_extra_tokens=1_000)
        asking = asyncio.create_task(
            service.translate(["sun " * 300] * 8, RequestOptions("en", "de", search=slow))
        )
        await wait_in_loop(lambda: service.num_queued_tokens)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert service.num_queued_tokens == 0

    run(leave())


def test_a_request_that_takes_too_long_is_refused(models: list[ServedModel]) -> None:
    slow = SearchSettings(min_length=900, max_length=1_000, max_extra_tokens=1_000)
    settings = replace(SETTINGS, request_seconds=0.05)
    with serving(models, DECODING, settings) as service:
        refusal = refused(
            lambda: service.translate(["sun " * 300] * 8, RequestOptions("en", "de", search=slow))
        )
        assert (refusal.status, refusal.label) == (504, "deadline")
        assert service.num_queued_tokens == 0


def test_a_full_queue_is_refused_at_once_and_told_when_to_come_back(models: list[ServedModel]) -> None:
    settings = replace(SETTINGS, queue_tokens=100)
    with serving(models, DECODING, settings) as service:

        async def ask_much() -> None:
            large = service.translate(
                ["sun moon star " * 50], RequestOptions("en", "de")
            )  # an empty queue takes any
            asking = asyncio.create_task(large)
            await asyncio.sleep(0)
            with pytest.raises(Refusal) as caught:
                await service.translate(["sun"], RequestOptions("en", "de"))
            assert caught.value.status == 429
            assert 1 <= int(caught.value.headers["Retry-After"]) <= 4
            await asking
            await service.translate(["sun"], RequestOptions("en", "de"))

        run(ask_much())


def has_room(service: Service) -> bool:
    with contextlib.suppress(Refusal):
        service.require_room()
        return True
    return False


def test_whatever_was_asked_the_queue_is_empty_afterwards(models: list[ServedModel]) -> None:
    texts, ende = ["sun", "1 + 1 = 2", "", "moon star " * 300], RequestOptions("en", "de")

    async def streamed(service: Service) -> None:
        async for _ in service.stream("sun", ende):
            break

    async def abandoned(service: Service) -> None:
        asking = asyncio.create_task(service.translate(texts, ende))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asked: list[Callable[[Service], Awaitable[Any]]] = [
        lambda service: service.translate(texts, ende),
        lambda service: service.translate(
            ["Das ruhige Kind kennt die junge Frau."], RequestOptions("auto", "de")
        ),
        lambda service: service.translate_all(["sun", "2"] * 70, RequestOptions("en", "fr")),
        lambda service: service.alternatives("sun moon", RequestOptions("en", "fr")),
        lambda service: service.alternatives("1 + 1", ende),
        lambda service: service.attention("sun", None, ende),
        lambda service: service.parse(["the sun sees the moon ."]),
        streamed,
        abandoned,
    ]

    async def ask_all(service: Service) -> None:
        for ask in asked:
            await ask(service)
            await wait_in_loop(lambda: has_room(service))  # a token in the queue would be one too many

    with serving(models, DECODING, replace(SETTINGS, queue_tokens=0)) as service:
        run(ask_all(service))


def test_a_long_text_has_its_place_in_the_queue_while_it_is_encoded(models: list[ServedModel]) -> None:
    settings = replace(SETTINGS, queue_tokens=100)
    with serving(models, DECODING, settings) as service:

        async def ask_much() -> None:
            text = "sun moon star " * 200
            asking = asyncio.create_task(service.translate([text], RequestOptions("en", "de")))
            await asyncio.sleep(0)
            with pytest.raises(Refusal) as caught:
                await service.translate([text], RequestOptions("en", "de"))
            assert caught.value.status == 429
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await wait_in_loop(lambda: has_room(service))

        run(ask_much())


def test_a_direction_on_the_command_line() -> None:
    assert direction_of("en-de=runs/a=b") == ModelSource(Path("runs/a=b"), ("en", "de"))
    for codes, pair in (
        ("EN-DE", ("en", "de")),
        ("zh_Hans-en", ("zh_hans", "en")),
        ("en-pt_BR", ("en", "pt_br")),
        ("en-pt-BR", ("en", "pt-br")),
        ("zh-Hans-es-419", ("zh-hans", "es-419")),
    ):
        assert direction_of(f"{codes}=m").direction == pair
    ambiguous = (
        "en-pt-br=m",
        "EN-PT-BR=m",
    )  # from English to Brazilian Portuguese, or as in Portugal to Breton
    for wrong in ("en=runs/a", "en-de", "en-de=", "-de=runs/a", "en-d/e=x", *ambiguous):
        with pytest.raises(UsageError, match=r"--direction .*: not of the form SOURCE-TARGET=MODEL"):
            direction_of(wrong)


def test_a_model_that_does_not_know_its_languages_wants_them(toy_model: Path, toy_parser: Path) -> None:
    cpu = "cpu"
    with pytest.raises(UsageError, match=r"does not know its languages; name them: --direction en-de="):
        load_models([ModelSource(toy_model)], cpu)
    names = [model.name for model in load_models([ModelSource(toy_parser), ModelSource(toy_parser)], cpu)]
    assert names == ["run", "run-2"]


@pytest.fixture
def replaceable(toy_model: Path, tmp_path: Path) -> tuple[Path, ServedModel]:
    """A folder, and the model that is served from it."""
    path = tmp_path / "model"
    shutil.copytree(toy_model, path)
    [model] = load_models([ModelSource(path, ("en", "de"))], CPU)
    return path, model


def test_a_replaced_model_is_loaded_and_a_damaged_one_is_not(
    toy_run: Path, replaceable: tuple[Path, ServedModel]
) -> None:
    """Promise: Replaced models."""
    path, model = replaceable
    assert newer(model, CPU) is None
    shutil.rmtree(path)
    shutil.copytree(toy_run / "checkpoints" / "step-00000120", path)
    (path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError):
        newer(model, CPU)
    assert newer(model, CPU) is None  # not tried again
    shutil.rmtree(path)
    shutil.copytree(toy_run / "checkpoints" / "step-00000120", path)
    replacement = newer(model, CPU)
    assert replacement is not None
    assert (replacement.name, replacement.source, replacement.target) == ("model", "en", "de")
    assert newer(replacement, CPU) is None


def test_a_model_keeps_its_own_beam_and_precision_when_it_is_replaced(
    toy_run: Path, toy_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(toy_model, path := tmp_path / "model")
    sources = [ModelSource(toy_model, ("en", "de")), ModelSource(path, ("en", "fr"))]
    given = with_settings(sources, precision={"": "float32", "model-2": "bfloat16"}, beam_size={"model-2": 2})
    first, second = load_models(given, CPU)
    own = first.loaded.config.search.beam_size
    assert own != 2
    shutil.rmtree(path)
    shutil.copytree(toy_run / "checkpoints" / "step-00000120", path)
    later = newer(second, CPU)
    assert later is not None
    for model, size, precision in ((first, own, "float32"), (second, 2, "bfloat16"), (later, 2, "bfloat16")):
        assert (model.loaded.config.search.beam_size, model.precision) == (size, precision)


def test_a_request_names_another_beam_than_the_models_own(toy_model: Path) -> None:
    models = load_models([ModelSource(toy_model, ("en", "de"), beam_size=1)], CPU)
    with serving(models, DECODING, SETTINGS) as service:
        refusal = refused(lambda: service.translate(["sun moon"], RequestOptions(n_best=3)))
        [found] = run(service.translate(["sun moon"], RequestOptions(n_best=3, search={"beam_size": 3})))
    assert refusal.message.startswith(
        "3 hypotheses a sentence are wanted of a beam of 1; raise the beam size"
    )
    assert len(found.translations) == 3


def test_a_model_that_was_not_complete_yet_is_tried_again_when_it_is(
    toy_run: Path, replaceable: tuple[Path, ServedModel]
) -> None:
    (path, model), source = replaceable, toy_run / "checkpoints" / "step-00000120"
    shutil.rmtree(path)
    shutil.copytree(source, path, ignore=shutil.ignore_patterns("model.safetensors"))
    with pytest.raises(ModelError):
        newer(model, CPU)
    shutil.copy2(source / "model.safetensors", path)
    assert newer(model, CPU) is not None


def test_a_model_of_another_task_does_not_replace_one(
    toy_parser: Path, replaceable: tuple[Path, ServedModel]
) -> None:
    path, model = replaceable
    shutil.rmtree(path)
    shutil.copytree(resolve_model(toy_parser), path)
    with pytest.raises(UsageError, match=r"it does parsing, not en-de; put it in another place"):
        newer(model, CPU)
    assert newer(model, CPU) is None


def test_whatever_befalls_a_model_the_former_one_serves_and_the_next_is_taken(
    service: Service,
    toy_run: Path,
    replaceable: tuple[Path, ServedModel],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, model = replaceable
    service.models = {"model": model}
    monkeypatch.setattr(process, "_SECONDS_BETWEEN_LOOKS", 0.001)
    looks: list[str] = []
    told: list[str] = []

    def look(model: ServedModel, device: str, others: list[ServedModel]) -> ServedModel | None:
        looks.append(str(len(looks)))
        if len(looks) == 20:
            raise MemoryError("no memory")
        if len(looks) == 40:
            shutil.copytree(toy_run / "checkpoints" / "step-00000120", path)
        return newer(model, device, others)

    monkeypatch.setattr(process, "newer", look)
    shutil.rmtree(path)

    async def watch() -> None:
        async with process._replacing(service, CPU, told.append):
            await wait_in_loop(lambda: told)

    asyncio.run(watch())
    assert told == ["model: replaced, loaded and verified"]
    assert service.models["model"] is not model
    messages = [record.getMessage() for record in caplog.records]
    missing = f"{path}: no such model; name a run, a checkpoint in it, or a model directory"
    assert messages == [
        f"model: not loaded, the former model still serves: {fault}"
        for fault in (missing, "unexpected MemoryError('no memory')", missing)
    ]
    reloads = {
        result: service.metrics.registry.get_sample_value(
            "allyouneed_reloads_total", {"model": "model", "result": result}
        )
        for result in ("ok", "failed")
    }
    assert reloads == {"ok": 1, "failed": len(messages)}
