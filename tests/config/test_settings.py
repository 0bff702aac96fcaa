"""Settings in TOML are read in bounded time, and taken whole or refused."""

from pathlib import Path

import pytest

from allyouneed.config.run import RunConfig
from allyouneed.config.settings import parse_toml
from allyouneed.errors import UsageError

CUT = ["1\n2", "1 # 2", "1, 2", "1]#", "", "'a\nb'"]
HOSTILE = ["[" * 5_000, "9" * 5_000, "{a" + ".b" * 20_000 + "=1}"]


@pytest.mark.parametrize("value", CUT + HOSTILE)
def test_of_a_setting_nothing_is_left_out(value: str) -> None:
    with pytest.raises(
        UsageError, match="is not a TOML value; give a number, true, false, or a quoted string"
    ):
        RunConfig().with_settings([f"training.seed={value}"])


def test_a_number_that_python_does_not_write_is_refused_all_the_same() -> None:
    with pytest.raises(UsageError, match="not a number with thousands of digits"):
        RunConfig().with_settings(["training.seed=0x" + "f" * 100_000])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" + ".b" * 20_000 + " = 1", r"a key with more than 64 dots \(at line 1\)"),
        ("[a" + ".b" * 20_000 + "]", "more than 64 dots"),
        ('\n"#"' + ".b" * 20_000 + " = 1", r"\(at line 2\)"),
        ("a = 'b # \"c'\n  x . y" + " .\ty" * 64 + " = 1", r"\(at line 2\); write group.key = value"),
        ('a = """\n\\""" " \' #"""""\nb' + ".b" * 20_000 + " = 1", r"\(at line 3\)"),
        ("a = '''\n\\''''\nb" + ".b" * 20_000 + " = 1", r"\(at line 3\)"),
        ("a = [1, {b = 2, c" + ".b" * 20_000 + " = 1}]", "more than 64 dots"),
        ("a = " + "[" * 5_000 + "]" * 5_000, "values nested too deeply; write group.key = value"),
        ("a = " + "9" * 5_000, "a number with more than 4,300 digits; write a smaller one"),
        ("#" * 1_100_000, "more than 1,048,576 characters; remove everything that is not a setting"),
        (
            "a" * 1_000_000,
            r"Expected '=' after a key in a key/value pair \(at end of document\); correct it there",
        ),
        ('a = """' + '\\"""' * 200_000, r"Unterminated string \(at end of document\); correct it there"),
    ],
)
def test_texts_that_would_take_too_long_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    """Promise: Settings."""
    with pytest.raises(ValueError, match=reason):
        parse_toml(text)
    path = tmp_path / "settings.toml"
    path.write_bytes(text.encode())
    with pytest.raises(UsageError, match=f"is not TOML: .*{reason}"):
        RunConfig.from_toml(path)


DOTS = ".b" * 100


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"# {DOTS}\na = 1 # {DOTS}", 1),
        (f'a = "{DOTS}" # "{DOTS}', DOTS),
        (f'a = "\\"{DOTS}"', f'"{DOTS}'),
        (f"a = '\"{DOTS}\\' # {DOTS}", f'"{DOTS}\\'),
        (f'a = """{DOTS}\n"{DOTS}\\""""""  # {DOTS}', f'{DOTS}\n"{DOTS}"""'),
        (f"a = '''{DOTS}\n'{DOTS}''''  # {DOTS}", f"{DOTS}\n'{DOTS}'"),
        ("a = [" + "1.5, " * 100 + "]", [1.5] * 100),
        ("a = 1" + "".join(f"\nb{number}.c = 2" for number in range(100)), 1),
    ],
)
def test_only_the_dots_of_a_key_are_counted(text: str, value: object) -> None:
    assert parse_toml(text)["a"] == value


def test_a_file_that_is_no_utf_8_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(UsageError, match=r"settings\.toml: is not TOML: .* 0xff .*; save the file as UTF-8"):
        RunConfig.from_toml(tmp_path / "settings.toml")


def test_thousands_of_unknown_settings_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"[model]\n" + b"".join(b"k%d = 1\n" % number for number in range(50_000)))
    with pytest.raises(UsageError) as caught:
        RunConfig.from_toml(path)
    assert len(caught.value.messages) == 50_000
    assert caught.value.lines()[-1].endswith("... and 49980 more")


def test_only_the_beginning_of_an_endless_file_is_read() -> None:
    with pytest.raises(UsageError, match="is not TOML"):
        RunConfig.from_toml(Path("/dev/zero"))
