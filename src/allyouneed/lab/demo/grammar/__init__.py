"""A synchronous grammar of English and German: sentence pairs with trees and word alignments, for the demo.

`words.toml`, read by `lexicon` and `expressions`, holds the vocabulary. `syntax` holds the language-neutral
structure of a sentence, which `realisation` turns into trees. `constructions` draws sentences, and
`grammar_corpus` makes sets of them, and a dictionary.
"""

from allyouneed.lab.demo.grammar.grammar_corpus import (
    DemoCorpus,
    DemoPair,
    demo_dictionary,
    generate_demo_corpus,
)

__all__ = ["DemoCorpus", "DemoPair", "demo_dictionary", "generate_demo_corpus"]
