"""Held-out text may be a translation memory, which is read in the model's languages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.siege.mutations import reseal

from allyouneed.data.lines import read_aligned

RunCommand = Callable[..., tuple[int, bytes, str]]
COMMANDS = {
    "evaluate": (),
    "score": (),
    "sweep": ("--beam-sizes", "1", "--length-penalties", "0.6"),
}


@pytest.fixture(scope="module")
def memory(toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validation text as a translation memory, with a unit in another language."""
    texts = zip(*read_aligned(toy_text / "valid.en", toy_text / "valid.toy"), strict=True)
    variant = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    units = [variant("en-US", source) + variant("DE", target) for source, target in texts]
    units.insert(3, variant("en-US", "sun") + variant("fr", "soleil"))
    path = tmp_path_factory.mktemp("memory") / "valid.tmx"
    body = "".join(f"<tu>{each}</tu>\n" for each in units)
    path.write_bytes(f"<tmx version='1.4'><body>{body}</body></tmx>".encode("utf-16"))
    return path


@pytest.fixture(scope="module")
def model(toy_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that records its languages."""
    copy = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(toy_model, copy)
    config = (copy / "config.toml").read_bytes()
    for side, code in ("source", b"en"), ("target", b"de"):
        line = f'{side}_language = ""'.encode()
        assert line in config
        config = config.replace(line, line[:-1] + code + b'"')
    (copy / "config.toml").write_bytes(config)
    reseal(copy)
    return copy


@pytest.mark.parametrize("command", COMMANDS)
def test_a_translation_memory_is_like_lines_of_its_pairs(
    run_command: RunCommand, toy_text: Path, model: Path, memory: Path, tmp_path: Path, command: str
) -> None:
    texts = zip(*read_aligned(toy_text / "valid.en", toy_text / "valid.toy"), strict=True)
    (tmp_path / "valid.tsv").write_bytes("".join(map("{0[0]}\t{0[1]}\n".format, texts)).encode())
    code, out, err = run_command(command, model, "--pairs", tmp_path / "valid.tsv", *COMMANDS[command])
    found = run_command(command, model, "--pairs", memory, *COMMANDS[command])
    assert code == 0, err
    assert "units" not in err
    num_units = len(read_aligned(toy_text / "valid.en")[0]) + 1
    dropped = f"allyouneed: {memory}: dropped 1 of {num_units} units, which lack en or de\n"
    assert found == (0, out, dropped + err)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_without_languages_cannot_read_a_translation_memory(
    run_command: RunCommand, toy_model: Path, memory: Path, command: str
) -> None:
    code, _, err = run_command(command, toy_model, "--pairs", memory, *COMMANDS[command])
    assert code == 2
    assert (
        f"{memory}: is a translation memory, and {toy_model} does not record its languages; give two" in err
    )
