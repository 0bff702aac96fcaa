"""`allyouneed shortlist`: likely translations of each sub-word, for faster translation."""

from functools import partial
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
    from allyouneed.inference.vocabulary_shortlist import Shortlist
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.storage.publish import require_free
    from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

    require_free(out)
    prepared = PreparedData(data)
    sizes, facts = (prepared.source_vocab_size, prepared.target_vocab_size), prepared.facts
    tokenizers = {SOURCE_TOKENIZER: facts["source_tokenizer"], TARGET_TOKENIZER: facts["target_tokenizer"]}
    learn = partial(
        Shortlist.learn, prepared.train, sizes, tokenizers, translations=translations, frequent=frequent
    )
    Shortlist.publish(out, learn, notice)
    num_read, num_pairs = len(pairs_read(prepared.train)), prepared.train.num_pairs
    print(
        f"{out}: up to {translations} translations of each of {prepared.source_vocab_size:,} sub-words, "
        f"learned from {num_read:,}{f' of {num_pairs:,}' if num_read < num_pairs else ''} pairs"
    )
