"""Two baselines without training, to compare with a trained model: a dictionary and a translation memory."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[.,;:!?])")


def translate_word_by_word(sentences: Sequence[str], dictionary: Mapping[str, str]) -> list[str]:
    """Replace every word by its dictionary entry, in source order.

    A word without an entry is looked up in lower case, then copied; an empty entry drops the word. The result
    starts with a capital letter.
    """
    return [_word_by_word(sentence, dictionary) for sentence in sentences]


def _word_by_word(sentence: str, dictionary: Mapping[str, str]) -> str:
    words = (dictionary.get(word, dictionary.get(word.lower(), word)) for word in _TOKEN.findall(sentence))
    text = _SPACE_BEFORE_MARK.sub("", " ".join(word for word in words if word))
    return text[:1].upper() + text[1:]


def nearest_sentence(
    sentences: Sequence[str], train_sources: Sequence[str], train_targets: Sequence[str]
) -> list[str]:
    """For each sentence, the target of the nearest training source; the first one on a tie.

    The nearest source has the highest cosine similarity between bags of words and word pairs, weighted by
    inverse document frequency, so that rare words and their neighbours count most. A sentence that shares
    nothing with any training source gets the first target.

    Raises:
        ValueError: There are no training sources, or the numbers of sources and targets differ.
    """
    if not train_sources or len(train_sources) != len(train_targets):
        raise ValueError(f"{len(train_sources)} training sources for {len(train_targets)} targets")
    index = _Index(train_sources)
    return [train_targets[index.nearest(sentence)] for sentence in sentences]


def _features(sentence: str) -> Counter[str]:
    words = _TOKEN.findall(sentence.lower())
    return Counter([*words, *map(" ".join, pairwise(words))])


class _Index:
    """An inverted index from features to their sentences, with the feature's share of the cosine."""

    def __init__(self, sentences: Sequence[str]) -> None:
        bags = [_features(sentence) for sentence in sentences]
        document_frequency = Counter(feature for bag in bags for feature in bag)
        self.num_sentences = len(bags)
        self.idf = {feature: math.log(1 + len(bags) / count) for feature, count in document_frequency.items()}
        rows: dict[str, list[int]] = defaultdict(list)
        shares: dict[str, list[float]] = defaultdict(list)
        for row, bag in enumerate(bags):
            norm = math.sqrt(sum((count * self.idf[feature]) ** 2 for feature, count in bag.items()))
            for feature, count in bag.items():
                rows[feature].append(row)
                shares[feature].append(count * self.idf[feature] / norm)
        self.postings = {feature: (np.array(rows[feature]), np.array(shares[feature])) for feature in rows}

    def nearest(self, sentence: str) -> int:
        """The index of the sentence with the highest cosine similarity."""
        scores = np.zeros(self.num_sentences)
        for feature, count in _features(sentence).items():
            if feature in self.postings:
                rows, shares = self.postings[feature]
                scores[rows] += count * self.idf[feature] * shares
        return int(scores.argmax())
