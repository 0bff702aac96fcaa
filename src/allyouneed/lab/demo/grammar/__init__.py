"""A synchronous grammar of English and German: sentence pairs with trees and word alignments, for the demo.

`lexicon`, `words` and `expressions` hold the vocabulary. `syntax` holds the language-neutral structure of a
sentence; `realisation` (shared), `english` and `german` turn it into trees. `constructions` draws sentences,
`corpus` makes training, validation and test sets of them, and `dictionary` derives a dictionary from these.
"""

from allyouneed.lab.demo.grammar.dictionary import demo_dictionary
from allyouneed.lab.demo.grammar.grammar_corpus import DemoCorpus, DemoPair, generate_demo_corpus

__all__ = ["DemoCorpus", "DemoPair", "demo_dictionary", "generate_demo_corpus"]
