"""Which texts and prompts of a chat are instructions, and which languages they name."""

import pytest

from allyouneed.serve.directions import Direction
from allyouneed.serve.protocols.openai import (
    LanguagePair,
    languages_of,
    read_instruction,
)

DIRECTIONS = [Direction("en", "de", ("m",)), Direction("de", "fr", ("n",))]


@pytest.mark.parametrize(
    ("instruction", "languages"),
    [
        ("Translate to German:", (None, "de")),
        ("translate into german:\n\n", (None, "de")),
        ("Please translate the following text from English to French:\n\n", ("en", "fr")),
        ("Translate the following English text to French: ", ("en", "fr")),
        ("Translate English to German: ", ("en", "de")),
        ("Translate to French from English:", ("en", "fr")),
        ("Translate this text into the following language, to Western Frisian: ", (None, "fy")),
        ("Translate from en to de:", ("en", "de")),
        ("Translate to pt-BR:", (None, "pt-BR")),
        ("Translate to Brazilian Portuguese:", (None, "pt-br")),
        ("Translate to Simplified Chinese:", (None, "zh-hans")),
        ("Translate to German (formal):", (None, "de")),
        ("Translate into German the following sentence :", (None, "de")),
        ("Translate to German, please:", (None, "de")),
        ("Translate English or Polish to German: ", (None, "de")),
    ],
)
@pytest.mark.parametrize("text", ["A dog runs.", "Note: a dog\nruns to German: cats.\n"])
def test_an_instruction_before_the_text_names_the_languages(
    instruction: str, languages: LanguagePair, text: str
) -> None:
    assert read_instruction(instruction + text) == (languages, text)


@pytest.mark.parametrize(
    "text",
    [
        "Translate to German:",
        "Translate to German: \n ",
        "Translate to German\n\nA dog runs.",
        "A dog runs. Translate to German: it runs.",
        "Translate this to the customer: A dog runs.",
        "Translate the text to be sent: A dog runs.",
        "Translate to German and French: A dog runs.",
        "Translate to Klingon: A dog runs.",
        "Translate it. To German: A dog runs.",
        "Translated to German: A dog runs.",
        "The way to German: A dog runs.",
        "Translate to Germanic tribes: A dog runs.",
        "",
    ],
)
def test_any_other_text_is_no_instruction(text: str) -> None:
    assert read_instruction(text) == (None, text)


@pytest.mark.parametrize(
    ("prompt", "languages"),
    [
        ("You are a translator. Translate to German.", (None, "de")),
        ("Translate everything into french", (None, "fr")),
        ("You translate from English into German.", ("en", "de")),
        ("You are an English to German translator", ("en", "de")),
        ("You're an English-to-French translation engine", ("en", "fr")),
        ("A professional English-German translator", ("en", "de")),
        ("Translate English → German", ("en", "de")),
        ("Translate all into French; it is from German.", ("de", "fr")),
        ("Translate en-de", ("en", "de")),
        ("Translate en-fr", None),
        ("You are a translator.", None),
        ("You are a translator. Reply in a friendly way to it.", None),
        ("Answer to German customers", None),
        ("Translate English to German and German to English.", None),
        ("Translate to German from English or French: from English, from French.", None),
        ("", None),
    ],
)
def test_a_prompt_about_translating_names_one_target(prompt: str, languages: LanguagePair | None) -> None:
    assert languages_of(prompt, DIRECTIONS) == languages
