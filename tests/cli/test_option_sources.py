"""Options of `serve` from a file and from variables: which one counts, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.cli.program import app

VARIABLE = "ALLYOUNEED_SERVE_"


def parsed(*words: str) -> dict[str, Any]:
    """The options that `serve` would get."""
    _, bound, _ = app.parse_args(["serve", *words], print_error=False, exit_on_error=False)
    found: dict[str, Any] = dict(bound.arguments)
    for group in ("directions", "access", "limits", "computation"):
        found |= vars(found.pop(group, object))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a file of options; returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "serve.toml"
        path.write_bytes(text.encode())
        return str(path)

    return write


def test_the_command_line_goes_before_variables_and_these_before_the_file(
    file: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file('port = 1\nhost = "file"\nmodels = ["file"]\nmax-wait = 1.5\nworkers = 1\n')
    for name, value in {"PORT": "2", "HOST": "variable", "MODELS": "variable", "WORKERS": ""}.items():
        monkeypatch.setenv(VARIABLE + name, value)
    found = parsed("line", "--port", "3", "--config", path)
    assert (found["models"], found["port"]) == ([Path("line")], 3)
    assert (found["host"], found["most_wait_seconds"], found["workers"]) == ("variable", 1.5, 1)


def test_a_variable_may_name_the_file(file: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{VARIABLE}CONFIG", file("port = 7"))
    assert parsed()["port"] == 7


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('models = "one"', "models", [Path("one")]),
        ('models = ["o n e", "two"]', "models", [Path("o n e"), Path("two")]),
        ("insecure = true", "insecure", True),
        ("insecure = false", "insecure", False),
        ('[direction]\nen-de = "one"\nde-fr = "two"', "direction", ["en-de=one", "de-fr=two"]),
        ('beam-size = [4, "one=2"]', "beam_size", ("4", "one=2")),
        ('[beam-size]\n"v1.2" = 2', "beam_size", ("v1.2=2",)),
        ("max_wait = 2", "most_wait_seconds", 2.0),
    ],
)
def test_keys_are_options(file: Callable[[str], str], text: str, name: str, value: Any) -> None:
    assert parsed("--config", file(text))[name] == value


WRONG_KEYS = [
    ("max-wiat = 1", "serve.toml: unknown key max-wiat; did you mean max-wait?"),
    ('token = "hidden"', "serve.toml: unknown key token; did you mean token-file?"),
    ("[limits]\nmax-wait = 1", "serve.toml: unknown key limits; known are allowed-host, "),
    ('config = "other.toml"', "serve.toml: unknown key config; known are allowed-host, "),
    ("quiet = true", "serve.toml: unknown key quiet; --quiet and --debug stand on the command line only"),
    ("port = 70000", 'Invalid value "70000" for port in '),
    ('port = "http"', "serve.toml: 'http' is not a whole number"),
    ("port = 1.5", "serve.toml: '1.5' is not a whole number"),
    ("port = true", "is not a whole number"),
    ("insecure = 2", "serve.toml: 2 is neither yes, true or 1 nor no, false or 0"),
    ("port = [1]", "serve.toml: write a text, a number, true or false"),
    ("port = {a = 1}", "serve.toml: write a text, a number, true or false"),
    ("host = 2026-01-01", "serve.toml: write a text, a number, true or false"),
    ("allowed-host = [[1]]", "serve.toml: write a text, a number, true or false, or a list of them"),
    ("allowed-host = {a = 1}", "serve.toml: write a text, a number, true or false, or a list of them"),
    ('log-format = "xml"', 'Invalid value "xml" for log-format in '),
    ("port =", "serve.toml: is not TOML: "),
    ('direction = "ende=m"', "serve.toml: --direction ende=m: not of the form SOURCE-TARGET=MODEL"),
    ('models = ["m"]\nbeam-size = 17', "beam-size in "),
    ('models = ["m"]\nprecision = {other = "int8"}', "serve.toml: --precision other=int8: no such model"),
    ('models = ["m"]\ntoken-file = "/none"', "serve.toml: --token-file /none: No such file"),
    ('models = ["m"]\ntrusted-proxy = "x"', "trusted-proxy in "),
    ('models = ["m"]\nhost = "0.0.0.0"', "host in "),
]


@pytest.mark.parametrize(
    ("word", "is_on"), {"yes": True, "TRUE": True, "1": True, "no": False, "0": False}.items()
)
def test_a_switch_is_turned_by_a_word(word: str, is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{VARIABLE}INSECURE", word)
    assert parsed()["insecure"] == is_on


@pytest.mark.parametrize(("text", "message"), WRONG_KEYS)
def test_wrong_keys_are_one_line_with_the_file_and_the_key(
    run_command: Callable[..., tuple[int, bytes, str]], file: Callable[[str], str], text: str, message: str
) -> None:
    code, _, said = run_command("serve", "--config", file(text))
    assert code == 2, said
    assert message in said
    assert f"{file(text)}" in said
    assert "hidden" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORT", "70000", 'Invalid value "70000" for ALLYOUNEED_SERVE_PORT. Must be <= 65535.'),
        ("PORT", "tcp://10.0.0.1:80", "for ALLYOUNEED_SERVE_PORT: 'tcp://10.0.0.1:80' is not a whole number"),
        (
            "INSECURE",
            "maybe",
            "ALLYOUNEED_SERVE_INSECURE: 'maybe' is neither yes, true or 1 nor no, false or 0",
        ),
        ("MAX_WIAT", "1", "ALLYOUNEED_SERVE_MAX_WIAT: unknown variable; unset it; did you mean "),
        ("QUIET", "1", "ALLYOUNEED_SERVE_QUIET: unknown variable; unset it; --quiet and --debug stand on"),
        ("TOKEN", "hidden", "did you mean ALLYOUNEED_SERVE_TOKEN_FILE?"),
        ("DIRECTION", "ende=m", "ALLYOUNEED_SERVE_DIRECTION: --direction ende=m: not of the form"),
        ("CONFIG", "/none.toml", "/none.toml: No such file or directory; name a TOML file of settings"),
        ("CONFIG", "/", "/: Is a directory; name a TOML file of settings"),
    ],
)
def test_wrong_variables_are_one_line_with_their_name(
    run_command: Callable[..., tuple[int, bytes, str]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    message: str,
) -> None:
    monkeypatch.setenv(VARIABLE + name, value)
    code, _, said = run_command("serve")
    assert code == 2, said
    assert message in said
    assert "hidden" not in said
    assert said.count("\n") == 1


def test_variables_of_serve_are_nothing_to_other_commands(
    run_command: Callable[..., tuple[int, bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{VARIABLE}PORT", "wrong")
    assert run_command("plan", "--preset", "base")[0] == 0
