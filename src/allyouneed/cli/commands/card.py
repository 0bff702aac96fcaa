"""`allyouneed card`: a model card, and the folder that a hub takes."""

from pathlib import Path

from allyouneed.errors import notice


def card(
    model: Path,
    /,
    *,
    run: Path | None = None,
    data: Path | None = None,
    scores: Path | None = None,
    test_set: str = "held-out text",
    license_: str = "",
    name: str = "",
    out: Path | None = None,
) -> None:
    """Write a model card, for a hub, from what a model and its run have recorded.

    ```
    allyouneed card runs/first > README.md
    allyouneed evaluate models/first --source test.en --reference test.de --json > scores.json
    allyouneed card models/first --run runs/first --scores scores.json --license cc-by-4.0 --out hub
    ```

    A card begins with facts for programs, in the form of Hugging Face's hub: languages, licence, scores. Then
    it tells people what the model does, how to use it, what it was trained on, at which cost, and what nobody
    has measured. With `--out` the model is copied, too: a folder that can be uploaded as it is. Its README.md
    can be edited, as the manifest does not list it.

    Args:
        model: A run, a checkpoint, or a model folder.
        run: Run of the model, which has recorded its cost; by default MODEL, if it is a run.
        data: Prepared data that the model was trained on, to tell the number of pairs.
        scores: Output of `evaluate --json`; by default the test scores of the run, if any.
        test_set: Name of the text that the scores are of.
        license_: Identifier of the licence of the weights, such as apache-2.0 or cc-by-4.0.
        name: Name of the model; by default that of its folder.
        out: New folder for a copy of the model and its card, README.md.
    """
    from allyouneed.interop import model_card
    from allyouneed.storage.publish import write_text
    from allyouneed.storage.remote import copy_published

    read = model_card.read_card(
        model, name=name, run=run, data=data, scores=scores, test_set=test_set, licence=license_
    )
    if out is None:
        print(read.text(), end="")
        return
    copy_published(read.model.directory, out, notice)
    write_text(out / model_card.NAME, read.text())
    print(f"{out}: {read.name} with its card")
