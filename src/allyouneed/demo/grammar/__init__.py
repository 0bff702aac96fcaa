"""A synchronous grammar of English and German: sentence pairs with trees and word alignments, for the demo.

`lexicon`, `words` and `expressions` hold the vocabulary, `syntax` the language-neutral structure of a
sentence, `realisation` what both languages make of it alike, `english` and `german` the rest. `constructions`
draws the sentences, `corpus` makes them into parts, and `dictionary` is what a word-by-word translator would
know of them.
"""

from allyouneed.demo.grammar.corpus import DemoCorpus, DemoPair, generate_demo_corpus
from allyouneed.demo.grammar.dictionary import demo_dictionary

__all__ = ["DemoCorpus", "DemoPair", "demo_dictionary", "generate_demo_corpus"]
