"""`allyouneed shortlist`: likely translations of each sub-word, for faster translation."""

from pathlib import Path

from allyouneed.cli.shared_options import AtLeastOne
from allyouneed.errors import notice


def shortlist(data: Path, /, *, out: Path, translations: AtLeastOne = 50, frequent: AtLeastOne = 100) -> None:
    """Learn from prepared data the likely target sub-words of each source sub-word.

    ```
    allyouneed shortlist data --out shortlists/first
    allyouneed translate models/first --shortlist shortlists/first < test.en > output.de
    ```

    With a shortlist, a sentence is translated using only its likely sub-words, so the probabilities of all
    others need not be computed.

    Args:
        data: The prepared data that the model was trained on.
        out: The folder to make.
        translations: Number of likeliest target sub-words to keep per source sub-word.
        frequent: Number of most frequent target sub-words that every translation may use.
    """
    from allyouneed.data.translation_table import pairs_read
    from allyouneed.preparation.derived_data import learn_shortlist
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.storage.publish import require_free

    require_free(out)
    prepared = PreparedData(data)
    learn_shortlist(prepared, out, translations=translations, frequent=frequent, say=notice)
    num_read, num_pairs = len(pairs_read(prepared.train)), prepared.train.num_pairs
    print(
        f"{out}: up to {translations} translations of each of {prepared.source_vocab_size:,} sub-words, "
        f"learned from {num_read:,}{f' of {num_pairs:,}' if num_read < num_pairs else ''} pairs"
    )
