"""`allyouneed sweep`: chooses beam size and length penalty on a development set (paper 6.1, 6.3)."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from allyouneed.cli.corpus_options import read_held_out
from allyouneed.cli.shared_options import SEVERAL, AtLeastOne, Device, device_kind
from allyouneed.errors import DataError, UsageError, notice

_Pair = tuple[int, float]


class _Development(NamedTuple):
    """A development set, decoded by a model."""

    metric: str
    title: str
    """The metric in words."""
    decode: Callable[..., Sequence[Any]]
    """Beam size and length penalty -> outputs."""
    score: Callable[[Sequence[Any]], float]
    p_value: Callable[[Sequence[Any], Sequence[Any]], float]
    """Two lists of outputs -> p-value of their difference."""


def sweep(
    model: Path,
    /,
    *,
    source: Path | None = None,
    reference: Annotated[list[Path] | None, SEVERAL] = None,
    pairs: Path | None = None,
    trees: Path | None = None,
    target_language: str | None = None,
    beam_sizes: Annotated[list[AtLeastOne], SEVERAL] = [1, 2, 4, 8],  # noqa: B006
    length_penalties: Annotated[list[float], SEVERAL] = [0.2, 0.6, 1.0, 1.4],  # noqa: B006
    device: Device = "auto",
    json_: bool = False,
) -> None:
    """Try beam sizes and length penalties on a development set, and print the best pair.

    ```
    allyouneed sweep model --source val.en --reference val.de
    allyouneed sweep model --pairs val.tsv
    allyouneed sweep model --source val.en --reference val.de --beam-sizes 4 6 --length-penalties 0.4 0.6 0.8
    allyouneed sweep parser --trees dev.mrg --beam-sizes 1 5 21 --length-penalties 0 0.3 0.6
    ```

    The paper's beam of 4 and length penalty of 0.6 "were chosen after experimentation on the development
    set", as were the 21 and 0.3 of its parsers. Do not choose on a test set.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        source: Source sentences, one per line.
        reference: Reference translations, line by line; of several files, BLEU takes the best matches.
        pairs: Lines of source TAB reference, or a TMX, instead of `--source` and `--reference`.
        trees: Gold trees in Penn brackets, for a parser; settings are compared by labelled F1.
        target_language: Language code of the references, such as `zh`; by default the model's own.
        beam_sizes: Beam sizes to try.
        length_penalties: Values of alpha to try.
        json_: Print one JSON object; each `p_value` compares a pair with the best one.
    """
    if trees is not None:
        if source or reference or pairs or target_language:
            others = "--source, --reference, --pairs, --target-language"
            raise UsageError(f"--trees: is for parsers; leave out {others}")
        development = _parsing(model, device, trees)
    else:
        given = read_held_out(source, reference, pairs, model)
        if not given[0]:
            raise DataError(f"{pairs or source}: is empty; give sentences with their translations")
        development = _translating(model, device, target_language, *given)
    found = _outputs(development, dict.fromkeys(product(beam_sizes, length_penalties)))
    scores = {pair: development.score(outputs) for pair, outputs in found.items()}
    best = max(scores, key=lambda pair: scores[pair])
    p_values = {
        pair: None if pair == best else development.p_value(outputs, found[best])
        for pair, outputs in found.items()
    }
    if json_:
        _print_json(development.metric, scores, p_values, best)
    else:
        _print_table(development.title, scores, p_values, best)


def _translating(
    model: Path, device: Device, target_language: str | None, sources: list[str], *references: list[str]
) -> _Development:
    """A development set of sentences, compared by BLEU."""
    from allyouneed.evaluation.bleu import bleu_of, choose_tokens
    from allyouneed.evaluation.significance import paired_bootstrap
    from allyouneed.runs.loading import load_translator

    translator = load_translator(model, device=device_kind(device))
    tokens = choose_tokens(target_language or translator.config.data.target_language, references[0])
    metric = bleu_of(tokens)
    if tokens.why_not_words:
        notice(f"the pairs are compared by {metric.__name__}: {tokens.why_not_words}")
    return _Development(
        metric.__name__,
        f"BLEU ({tokens.tokenizer})",
        lambda **search: [found.text for found in translator.translate(sources, **search)],
        lambda texts: metric(texts, *references).value,
        lambda texts, best: paired_bootstrap(texts, best, *references, tokens=tokens).p_value,
    )


def _parsing(model: Path, device: Device, trees: Path) -> _Development:
    """A development set of trees, compared by labelled F1."""
    from allyouneed.evaluation.significance import bootstrap_p_value
    from allyouneed.lab.statistics.figure_tests import TESTS, bracket_counts
    from allyouneed.runs.loading import load_parser
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.tasks.parsing.task import parse_words
    from allyouneed.tasks.parsing.treebank import clean_trees
    from allyouneed.tasks.parsing.trees import read_trees
    from allyouneed.tasks.requests import results

    gold = [placed.tree for placed in clean_trees(read_trees(trees))]
    if not gold:
        raise DataError(f"{trees}: holds no tree; give a file of trees in brackets")
    parser, f1 = load_parser(model, device=device_kind(device)), TESTS["bracket_f1"].score
    counts = partial(bracket_counts, gold)
    return _Development(
        "bracket_f1",
        "bracket F1",
        lambda **search: [parse.tree for parse in results(parse_words(parser, gold, **search), NO_PARSE)],
        lambda found: f1(counts(found).sum(axis=0)),
        lambda found, best: bootstrap_p_value(counts(found), counts(best), f1),
    )


def _outputs(development: _Development, settings: Collection[_Pair]) -> dict[_Pair, Sequence[Any]]:
    from allyouneed.config.run import SearchConfig

    for beam_size, alpha in settings:  # before the first is tried
        SearchConfig.checked(beam_size=beam_size, length_penalty=alpha)
    found: dict[_Pair, Sequence[Any]] = {}
    for beam_size, alpha in settings:
        found[beam_size, alpha] = development.decode(beam_size=beam_size, length_penalty=alpha)
        notice(f"beam size {beam_size}, length penalty {alpha:g} done")
    return found


def _print_json(
    metric: str, scores: Mapping[_Pair, float], p_values: Mapping[_Pair, float | None], best: _Pair
) -> None:
    tried = [
        {"beam_size": b, "length_penalty": a, metric: scores[b, a], "p_value": p_values[b, a]}
        for b, a in scores
    ]
    print(json.dumps({"tried": tried, "best": {"beam_size": best[0], "length_penalty": best[1]}}))


def _print_table(
    title: str, scores: Mapping[_Pair, float], p_values: Mapping[_Pair, float | None], best: _Pair
) -> None:
    """Print scores by beam size and length penalty; a mark shows values as good as the best."""
    from allyouneed.evaluation.significance import SIGNIFICANT

    as_good = {pair for pair, p in p_values.items() if p is None or p >= SIGNIFICANT}
    beam_sizes, length_penalties = (list(dict.fromkeys(values)) for values in zip(*scores, strict=True))
    print(f"{'beam':>6}" + "".join(f"{f'alpha {alpha:g}':>11}" for alpha in length_penalties))
    for beam_size in beam_sizes:
        pairs = [(beam_size, alpha) for alpha in length_penalties]
        cells = (f"{scores[pair]:.2f}{'~' if pair in as_good else ' '}" for pair in pairs)
        print(f"{beam_size:>6}" + "".join(f"{cell:>11}" for cell in cells))
    print("~ is not significantly worse than the best (paired bootstrap, p >= 0.05)")
    print(f"best: --beam-size {best[0]} --length-penalty {best[1]:g}, {title} {scores[best]:.2f}")
