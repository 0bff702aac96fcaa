"""`allyouneed inspect`: what prepared data looks like."""

import json
from pathlib import Path
from typing import Annotated

from allyouneed.cli.progress import progress
from allyouneed.cli.shared_options import between
from allyouneed.storage.publish import require_file, write_text


def inspect(
    data: Path,
    /,
    *,
    examples: Annotated[int, between(0, 1_000)] = 5,
    out: Path | None = None,
    json_: bool = False,
) -> None:
    """Show what prepared data looks like, before hours are spent on it.

    ```
    allyouneed inspect data
    allyouneed inspect data --out data.html
    allyouneed inspect data --examples 20 --json
    ```

    Prints sizes, lengths, sub-words per word, how much of the vocabulary occurs, repeats, validation pairs
    that are also trained on, the padding of batches, and the pairs that are repeated most, are longest, and
    whose lengths fit worst (by Gale and Church's distance). Pairs are numbered as they were read, over all
    files.

    Args:
        data: A folder that `prepare` has made.
        examples: Maximum number of pairs of each kind to show.
        out: Page (HTML) with plots to write instead; one file, which works offline.
        json_: Print one JSON object, with histograms of the lengths, instead.
    """
    if out is not None:
        require_file(out)

    from allyouneed.preparation.inspecting import inspect as look_at
    from allyouneed.preparation.inspection_text import as_json, as_text
    from allyouneed.preparation.prepared_data import PreparedData

    prepared = PreparedData(data)
    total, unit = 2 * prepared.train.num_pairs, prepared.task.examples
    with progress(total, unit=unit, description="reading twice") as shown:
        found = look_at(prepared, examples, shown.advance)
    if out is not None:
        from allyouneed.preparation.inspection_page import as_page

        write_text(out, as_page(found))
    if json_:
        print(json.dumps(as_json(found), ensure_ascii=False))
    elif out is None:
        print(*as_text(found), sep="\n")
