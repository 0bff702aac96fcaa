"""Directions of models, and the routes of texts whose languages are given or detected."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from allyouneed.data.languages import Detector
from allyouneed.serve.directions import Router, between, directions_of
from allyouneed.serve.models import ServedModel
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions

TEXTS = {
    "de": "Das ruhige Kind kennt die junge Frau.",
    "en": "The quiet child knows the young woman.",
    "fr": "Un enfant calme regarde la jeune femme dans la rue.",
    "pt": "A criança tranquila não conhece a jovem mulher que está na rua.",
    "zh": "我们的老师在柏林买了一座新房子。",
}


def served(model: ServedModel, directions: Sequence[str]) -> list[ServedModel]:
    """A model under the names of directions."""
    pairs = [each.split("-") for each in directions]
    return [replace(model, name="-".join(pair), source=pair[0], target=pair[1]) for pair in pairs]


def routed(
    model: ServedModel, directions: str, text: str, ask: RequestOptions
) -> tuple[str, str, tuple[str, ...]]:
    models = served(model, directions.split())
    found = directions_of(models)
    codes = sorted({code for each in found for code in (each.source, each.target)})
    direction = (
        Router({each.name: each for each in models}, found, Detector(codes).detect).route(text, ask).direction
    )
    return direction.source, direction.target, direction.models


@pytest.mark.parametrize(
    ("directions", "text", "target", "expected"),
    [
        ("en-de", "de", "de", "de"),
        ("en-de", "de", "DE-at", "de"),
        ("en-de", "de", None, "de"),
        ("en-de", "en", "en", "en"),
        ("en-de fr-de", "de", "de", "de"),
        ("en-de fr-de", "de", None, "de"),
        ("en-de de-fr", "fr", "fr", "fr"),
        ("en-de de-fr", "fr", None, "fr"),
        ("en-pt_br pt-en", "pt", "pt-BR", "pt_br"),
        ("en-pt", "pt", "pb", "pt"),
        ("en-zh_hans en-zh_hant", "zh", "zh-TW", "zh_hant"),
        ("pt-pt_br", "pt", "pt", "pt"),
    ],
)
def test_a_text_in_the_target_language_goes_through_no_model(
    models: list[ServedModel], directions: str, text: str, target: str | None, expected: str
) -> None:
    assert routed(models[0], directions, TEXTS[text], RequestOptions("auto", target)) == (
        expected,
        expected,
        (),
    )


@pytest.mark.parametrize(
    ("directions", "text", "target", "expected"),
    [
        ("en-de", "en", "de", ["en-de"]),
        ("en-de de-en", "de", "en", ["de-en"]),
        ("en-de de-fr", "de", None, ["de-fr"]),
        ("en-de de-fr", "en", "fr", ["en-de", "de-fr"]),
        ("zh_hans-zh_hant", "zh", "zh-Hant", ["zh_hans-zh_hant"]),
        ("pt-pt_br en-pt_br", "pt", "pt-BR", ["pt-pt_br"]),
        ("en-zh zh_hant-en", "en", "zh", ["en-zh"]),
    ],
)
def test_other_texts_are_translated(
    models: list[ServedModel], directions: str, text: str, target: str | None, expected: list[str]
) -> None:
    assert routed(models[0], directions, TEXTS[text], RequestOptions("auto", target))[2] == tuple(expected)


@pytest.mark.parametrize("text", ["Привет, как дела?", "OK", "hand", "7:30", "..."])
def test_a_text_whose_language_is_in_doubt_or_not_served_is_translated(
    models: list[ServedModel], text: str
) -> None:
    assert routed(models[0], "en-de", text, RequestOptions("auto", "de"))[2] == ("en-de",)


def test_the_language_of_a_text_for_a_named_model_is_one_of_the_model(models: list[ServedModel]) -> None:
    directions = "en-de fr-de de-fr"
    assert routed(models[0], directions, TEXTS["de"], RequestOptions("auto", model="en-de")) == (
        "de",
        "de",
        (),
    )
    assert routed(models[0], directions, TEXTS["de"], RequestOptions("auto", model="de-fr"))[2] == ("de-fr",)


def test_a_detected_language_that_is_not_translated_to_the_target_is_refused(
    models: list[ServedModel],
) -> None:
    with pytest.raises(Refusal) as caught:
        routed(models[0], "en-de", TEXTS["de"], RequestOptions("auto", "en"))
    assert (caught.value.status, caught.value.label) == (404, "no_direction")


@pytest.mark.parametrize(
    ("directions", "source", "target", "expected"),
    [
        ("en-de", "EN-us", "de_AT", ["en-de"]),
        ("en-de", "eng", "ger", ["en-de"]),
        ("en-zh_hant en-zh_hans", "en", "zh-CN", ["en-zh_hans"]),
        ("en-zh_hans de-zh_hant", "de", "zh", ["de-zh_hant"]),
        ("zh-en", "zh-TW", "en", ["zh-en"]),
        ("en_gb-de en-de", "en", None, ["en-de"]),
        ("en-pt pt_br-fr pt-fr", "en", "fr", ["en-pt", "pt-fr"]),
        ("en-pt_br pt-fr", "en", "fr", ["en-pt_br", "pt-fr"]),
    ],
)
def test_given_codes_find_the_closest_direction(
    models: list[ServedModel], directions: str, source: str, target: str | None, expected: list[str]
) -> None:
    assert routed(models[0], directions, "", RequestOptions(source, target))[2] == tuple(expected)
    name = expected[0] if len(expected) == 1 else None
    assert routed(models[0], directions, "", RequestOptions(source, target, name))[2] == tuple(expected)


def test_models_of_other_scripts_are_not_joined(models: list[ServedModel]) -> None:
    found = directions_of(served(models[0], ["en-zh", "zh_hant-fr", "pt-en", "en-pt_br"]))
    assert [(each.source, each.target) for each in found[4:]] == [
        ("pt", "zh")
    ]  # not from pt to pt_br and back


def test_languages_are_translated_to_themselves_by_no_model(models: list[ServedModel]) -> None:
    directions = directions_of(served(models[0], ["en-de", "zh-en", "pt-en", "en-pt_br"]))
    for source, target, expected in (("en-GB", "en-US", "en"), ("DE", "de", "de"), ("pt", "pt-BR", "pt_br")):
        direction = between(directions, source, target)
        assert direction is not None
        assert (direction.source, direction.target, direction.models) == (expected, expected, ())
    for source, target in (("zh-TW", "zh"), ("de", "en"), ("xx", "xx"), ("en", "xx")):
        assert between(directions, source, target) is None
