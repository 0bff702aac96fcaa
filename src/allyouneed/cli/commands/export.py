"""`allyouneed export`: a model in a format of other software."""

from pathlib import Path
from typing import Literal

from allyouneed.cli.shared_options import language_pair
from allyouneed.errors import notice


def export(
    model: Path,
    out: Path,
    /,
    *,
    to: Literal["ctranslate2", "huggingface", "marian", "bergamot", "web", "argos"],
    languages: str | None = None,
    precision: Literal["float32", "int8"] | None = None,
    text: Path | None = None,
    shortlist: Path | None = None,
    engine: Path | None = None,
) -> None:
    """Export a model to a folder that other software can load, and check it there.

    ```
    allyouneed export models/first --to ctranslate2 exported/first-ct2
    allyouneed export runs/first --to huggingface exported/first-hf
    allyouneed export models/first --to marian exported/first-marian
    allyouneed export models/first --to bergamot --text data exported/first-firefox
    allyouneed export models/first --to web --text data site
    allyouneed export models/first --to argos --languages en-de exported/first-argos
    ```

    The folder holds the weights, the tokenisers and a README.md that shows how to use them. It is created
    only if it agrees with the model. CTranslate2 (also for Argos Translate) and transformers must compute the
    same log-probabilities, on random tokens and on translations of sentences. Exports to Marian, Bergamot and
    the web are read back: weights in float32 must have the same bits, and those in int8 may differ by half a
    step. They are also run in Marian if pymarian is installed; the last line says whether they were.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        out: The folder to make.
        to: The format: `ctranslate2` is fast on CPUs and GPUs (requires `allyouneed[ctranslate2]`),
            `huggingface` is a Marian model of transformers (requires `allyouneed[huggingface]`), `marian` is
            for Marian itself, `bergamot` for Firefox, `web` a folder of static files that translates in any
            browser by itself (these require `allyouneed[marian]`), and `argos` a package of Argos Translate
            (requires `allyouneed[argos]`). docs/interop.md says which models each can hold; `train --for
            marian` trains one for Marian, Firefox and the web.
        languages: Codes of the source and target language, such as en-de, for `argos`, `bergamot` and `web`;
            default: those that the model records.
        precision: Precision of the matrices for `bergamot` and `web`; by default int8, which Firefox needs.
        text: Source text, or prepared data, whose validation text is taken, to measure the range of
            activations on; int8 of `bergamot` and `web` needs it.
        shortlist: A folder made by `allyouneed shortlist`, for `bergamot` and `web`.
        engine: Folder of npm's @browsermt/bergamot-translator, for `web`; by default that in `node_modules`.
    """
    from allyouneed.interop.exporting import export_model

    options = {
        "languages": language_pair(languages),
        **{"precision": precision, "text": text, "shortlist": shortlist, "engine": engine},
    }
    found = export_model(model, to, out, options, say=notice)
    if found.lacking:
        print(f"{out}: {model} for {to}; not proved, as {found.lacking} is not installed")
    else:
        print(f"{out}: {model} for {to}; log-probabilities differ by {found.difference:.1g} at most")
