"""`allyouneed sweep`: chooses beam size and length penalty on a development set (paper 6.1)."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from allyouneed.cli.corpus_options import read_held_out
from allyouneed.cli.shared_options import SEVERAL, AtLeastOne, Device, device_kind
from allyouneed.errors import DataError, notice

if TYPE_CHECKING:
    from allyouneed.evaluation import BleuTokens
    from allyouneed.tasks.translation.translator import Translator

_Pair = tuple[int, float]


def sweep(
    model: Path,
    /,
    *,
    source: Path | None = None,
    reference: Annotated[list[Path] | None, SEVERAL] = None,
    pairs: Path | None = None,
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
    ```

    The paper's beam of 4 and length penalty of 0.6 "were chosen after experimentation on the development
    set". Do not choose on a test set.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        source: Source sentences, one per line.
        reference: Reference translations, line by line; of several files, BLEU takes the best matches.
        pairs: Lines of source TAB reference, or a TMX, instead of `--source` and `--reference`.
        target_language: Language code of the references, such as `zh`; by default the model's own.
        beam_sizes: Beam sizes to try.
        length_penalties: Values of alpha to try.
        json_: Print one JSON object; each `p_value` compares a pair with the best one.
    """
    from allyouneed.evaluation import bleu_of, choose_tokens
    from allyouneed.evaluation.significance import SIGNIFICANT
    from allyouneed.runs.loading import load_translator

    sources, *references = read_held_out(source, reference, pairs, model)
    if not sources:
        raise DataError(f"{pairs or source}: is empty; give sentences with their translations")
    translator = load_translator(model, device=device_kind(device))
    tokens = choose_tokens(target_language or translator.config.data.target_language, references[0])
    metric = bleu_of(tokens)
    if tokens.why_not_words:
        notice(f"the pairs are compared by {metric.__name__}: {tokens.why_not_words}")
    found = _translations(translator, sources, dict.fromkeys(product(beam_sizes, length_penalties)))
    bleu = {pair: metric(texts, *references).value for pair, texts in found.items()}
    best = max(bleu, key=lambda pair: bleu[pair])
    p_values = _p_values(found, best, references, tokens)
    if json_:
        tried = [
            {"beam_size": b, "length_penalty": a, metric.__name__: bleu[b, a], "p_value": p_values[b, a]}
            for b, a in found
        ]
        print(json.dumps({"tried": tried, "best": {"beam_size": best[0], "length_penalty": best[1]}}))
        return
    _print_table(bleu, {pair for pair, p in p_values.items() if p is None or p >= SIGNIFICANT})
    score = f"BLEU ({tokens.tokenizer}) {bleu[best]:.2f}"
    print(f"best: --beam-size {best[0]} --length-penalty {best[1]:g}, {score}")


def _translations(
    translator: "Translator", sources: Sequence[str], settings: Collection[_Pair]
) -> dict[_Pair, list[str]]:
    from allyouneed.config.run import SearchConfig

    for beam_size, alpha in settings:  # before the first is tried
        SearchConfig.checked(beam_size=beam_size, length_penalty=alpha)
    found: dict[_Pair, list[str]] = {}
    for beam_size, alpha in settings:
        translations = translator.translate(sources, beam_size=beam_size, length_penalty=alpha)
        found[beam_size, alpha] = [translation.text for translation in translations]
        notice(f"beam size {beam_size}, length penalty {alpha:g} done")
    return found


def _p_values(
    found: Mapping[_Pair, Sequence[str]],
    best: _Pair,
    references: Sequence[Sequence[str]],
    tokens: "BleuTokens",
) -> dict[_Pair, float | None]:
    """P-value of the difference between each pair and the best; None for that one."""
    from allyouneed.evaluation.significance import paired_bootstrap

    compared = found[best], *references
    return {
        pair: None if pair == best else paired_bootstrap(texts, *compared, tokens=tokens).p_value
        for pair, texts in found.items()
    }


def _print_table(bleu: Mapping[_Pair, float], as_good: Collection[_Pair]) -> None:
    """Print BLEU by beam size and length penalty; a mark shows values as good as the best."""
    beam_sizes, length_penalties = (list(dict.fromkeys(values)) for values in zip(*bleu, strict=True))
    print(f"{'beam':>6}" + "".join(f"{f'alpha {alpha:g}':>11}" for alpha in length_penalties))
    for beam_size in beam_sizes:
        pairs = [(beam_size, alpha) for alpha in length_penalties]
        cells = (f"{bleu[pair]:.2f}{'~' if pair in as_good else ' '}" for pair in pairs)
        print(f"{beam_size:>6}" + "".join(f"{cell:>11}" for cell in cells))
    print("~ is not significantly worse than the best (paired bootstrap, p >= 0.05)")
