"""`card` writes a model card, alone or with a copy of the model that is whole."""

from collections.abc import Callable
from pathlib import Path

from allyouneed.interop.model_card import NAME, read_card

RunCommand = Callable[..., tuple[int, bytes, str]]


def test_the_card_goes_to_standard_output(run_command: RunCommand, toy_run: Path) -> None:
    assert run_command("card", toy_run, "--license", "mit") == (
        0,
        read_card(toy_run, licence="mit").text().encode(),
        "",
    )


def test_a_folder_for_a_hub_is_a_whole_model_with_its_card_which_may_be_edited(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    hub = tmp_path / "hub"
    said = f"{hub}: toy with its card\n".encode()
    assert run_command("card", toy_model, "--name", "toy", "--out", hub) == (0, said, "")
    assert (hub / NAME).read_bytes().decode() == read_card(toy_model, name="toy").text()
    (hub / NAME).write_bytes(b"edited")
    code, intact, notice = run_command("verify", hub)
    assert (code, intact[:3]) == (0, b"ok\t")
    assert notice == f"allyouneed: {hub / NAME}: is not in the manifest, and is not used\n"
    translated = [run_command("translate", model, stdin=b"sun sees moon\n") for model in (toy_model, hub)]
    assert translated[0][0] == 0
    assert translated[0] == translated[1]
    code, _, error = run_command("card", toy_model, "--out", hub)
    assert code == 2
    assert str(hub) in error
