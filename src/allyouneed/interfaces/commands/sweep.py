"""`allyouneed sweep`: chooses beam size and length penalty on a development set (paper 6.1)."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.held_out import read_held_out
from allyouneed.interfaces.number_options import SEVERAL, AtLeastOne


def sweep(
    model: Path,
    /,
    *,
    source: Path | None = None,
    reference: Path | None = None,
    pairs: Path | None = None,
    beam_sizes: Annotated[list[AtLeastOne], SEVERAL] = [1, 2, 4, 8],  # noqa: B006
    length_penalties: Annotated[list[float], SEVERAL] = [0.0, 0.3, 0.6, 1.0],  # noqa: B006
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
        reference: Reference translations, line by line.
        pairs: Lines of source TAB reference, instead of `--source` and `--reference`.
        beam_sizes: Beam sizes to try.
        length_penalties: Values of alpha to try.
        json_: Print one JSON object; each `p_value` compares a pair with the best one.
    """
    from allyouneed.evaluation import bleu_13a
    from allyouneed.evaluation.significance import SIGNIFICANT, paired_bootstrap

    sources, references = read_held_out(source, reference, pairs)
    settings = [(beam_size, alpha) for beam_size in beam_sizes for alpha in length_penalties]
    found = _translations(model, device, sources, settings)
    bleu = {pair: bleu_13a(texts, references).value for pair, texts in found.items()}
    best = max(bleu, key=lambda pair: bleu[pair])
    p_values = {
        pair: None if pair == best else paired_bootstrap(texts, found[best], references).p_value
        for pair, texts in found.items()
    }
    if json_:
        tried = [
            {"beam_size": b, "length_penalty": a, "bleu_13a": bleu[b, a], "p_value": p_values[b, a]}
            for b, a in found
        ]
        print(json.dumps({"tried": tried, "best": {"beam_size": best[0], "length_penalty": best[1]}}))
        return
    _print_table(bleu, {pair for pair, p in p_values.items() if p is None or p >= SIGNIFICANT})
    print(f"best: --beam-size {best[0]} --length-penalty {best[1]:g}, BLEU (13a) {bleu[best]:.2f}")
    print("~ is not significantly worse than the best (paired bootstrap, p >= 0.05)")


def _translations(
    model: Path, device: Device, sources: Sequence[str], settings: Sequence[tuple[int, float]]
) -> dict[tuple[int, float], list[str]]:
    """Translations for each beam size and length penalty."""
    from allyouneed.config.run import SearchConfig
    from allyouneed.tasks.loading import load_translator

    translator = load_translator(model, device=torch_device(device))
    for beam_size, alpha in settings:  # before the first is tried
        SearchConfig.checked(beam_size=beam_size, length_penalty=alpha)
    found: dict[tuple[int, float], list[str]] = {}
    for beam_size, alpha in settings:
        translations = translator.translate(sources, beam_size=beam_size, length_penalty=alpha)
        found[beam_size, alpha] = [translation.text for translation in translations]
        notice(f"beam size {beam_size}, length penalty {alpha:g} done")
    return found


def _print_table(bleu: Mapping[tuple[int, float], float], as_good: Collection[tuple[int, float]]) -> None:
    """Print BLEU by beam size and length penalty; a mark shows values as good as the best."""
    beam_sizes, length_penalties = (list(dict.fromkeys(values)) for values in zip(*bleu, strict=True))
    print(f"{'beam':>6}" + "".join(f"{f'alpha {alpha:g}':>11}" for alpha in length_penalties))
    for beam_size in beam_sizes:
        pairs = [(beam_size, alpha) for alpha in length_penalties]
        cells = (f"{bleu[pair]:.2f}{'~' if pair in as_good else ' '}" for pair in pairs)
        print(f"{beam_size:>6}" + "".join(f"{cell:>11}" for cell in cells))
