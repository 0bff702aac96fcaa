"""Where target tokens come from: by hand, and as a corpus of word for word translations tells."""

from pathlib import Path

import numpy as np
import pytest

from allyouneed import CorpusFiles, DataConfig, prepare
from allyouneed.data.alignment_guide import AlignmentGuide
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.translation_table import TranslationTable

# Token 7 gives 5 in three of four cases, and 6; token 8 gives 5 in one of two, and rarely 9; the empty word
# gives 6.
TABLE = TranslationTable(
    np.array([0, 7, 7, 8, 8]), np.array([6, 5, 6, 5, 9]), np.array([1.0, 0.75, 0.25, 0.5, 0.00005])
)


def test_a_token_comes_from_the_sources_that_give_it_in_proportion() -> None:
    guide = AlignmentGuide(TABLE, 10)
    source = np.array([[7, 8, 2], [8, 2, 0]])  # 2 is the end symbol, and 0 is padding
    target = np.array([[5, 6, 9, 2], [5, 2, 0, 0]])
    expected = np.zeros((2, 4, 3))
    expected[0, 0] = 0.6, 0.4, 0.0
    expected[0, 1] = 1.0, 0.0, 0.0
    expected[0, 3] = expected[1, 1] = 0.0, 0.0, 1.0
    expected[1, 0] = 1.0, 0.0, 0.0
    expected[1, 1] = 0.0, 1.0, 0.0
    assert guide(source, target).tolist() == pytest.approx(expected)


def test_the_guide_of_a_corpus_finds_the_word_that_each_word_translates(
    toy_text: Path, tmp_path: Path
) -> None:
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy", drop_repeats=False)
    prepared = prepare(tmp_path / "data", files, config=DataConfig(vocab_size=346))  # with whole words
    batch = make_batch(prepared.train.guided_by(prepared.guide), np.arange(50))
    assert batch.guide is not None
    assert make_batch(prepared.train, np.arange(50)).guide is None
    assert batch.guide.shape == (50, batch.target_output.shape[1], batch.source.shape[1])
    assert not batch.guide[(batch.target_output == 0)[:, :, None] & np.ones(batch.guide.shape, bool)].any()
    assert not batch.guide[(batch.source == 0)[:, None, :] & np.ones(batch.guide.shape, bool)].any()
    source_units, target_units = prepared.units
    assert isinstance(source_units, Tokenizer)
    assert isinstance(target_units, Tokenizer)
    right = total = 0
    for row in range(50):
        for step, token in enumerate(batch.target_output[row]):
            source = batch.source[row, batch.guide[row, step].argmax()]
            if (
                len(target := target_units.decode([int(token)]).strip()) > 3
            ):  # a whole word of the toy language
                total += 1
                right += target == f"{source_units.decode([int(source)]).strip()[::-1]}o"
    assert total > 50
    assert right > 0.9 * total
