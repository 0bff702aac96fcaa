"""`allyouneed evaluate`: scores a model or a file of translations."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

from cyclopts import Parameter

from allyouneed.cli.corpus_options import read_directed, read_held_out
from allyouneed.cli.shared_options import SEVERAL, Device, SearchOptions, device_kind
from allyouneed.data.directed_pairs import named_files
from allyouneed.data.lines import is_blank, read_aligned, read_lines
from allyouneed.errors import DataError, ModelError, UsageError, notice
from allyouneed.evaluation.bleu import choose_tokens
from allyouneed.evaluation.metrics import EXPLANATIONS, translation_metrics
from allyouneed.evaluation.scores import Score, format_scores, headline, scores_to_json
from allyouneed.language_codes import Direction
from allyouneed.storage.publish import require_file
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees, words_of
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.treebank import UNPARSED, clean_trees
from allyouneed.tasks.parsing.trees import Tree, trees_in
from allyouneed.tasks.requests import Failure, results

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import ParseOptions
    from allyouneed.tasks.translation.translator import Translator

_notice = partial(notice, settings=["target_language"])


@Parameter(name="*")
@dataclass(frozen=True)
class TreeOptions:
    """Trees to score instead of translations."""

    trees: Path | None = None
    """Gold trees in Penn brackets, instead of a reference; a parser parses their words."""
    unconstrained: bool = False
    """Search all outputs, as in the paper, and repair those that are not trees."""
    labels: bool = False
    """Also print a table of all labels."""
    lengths: bool = False
    """Also print a table by sentence length."""
    length_plot: Path | None = None
    """Plot F1 by sentence length into this file, PNG, or SVG or PDF by its name."""


@Parameter(name="*")
@dataclass(frozen=True)
class ScoredTexts:
    """Texts that a model translates to be scored, and their languages."""

    source: Path | None = None
    """Source sentences, line by line with the reference."""
    pairs: Annotated[tuple[Path, ...], SEVERAL] = ()
    """Lines of source TAB reference, or a TMX, instead of `--source` and `--reference`; for a model of
    several languages one file of each direction, `en-de=FILE en-fr=FILE`; their mean is printed, too."""
    both_directions: bool = False
    """Read each file of `--pairs en-de=FILE` as de-en, too."""
    to: str | None = None
    """Code of the language to write, for a model of several."""
    target_language: str | None = None
    """Language code of the references, such as `de` or `zh`, for BLEU on its tokens; by default the one
    recorded in the model."""


def evaluate(
    model: Path | None = None,
    /,
    *,
    reference: Annotated[list[Path] | None, SEVERAL] = None,
    texts: ScoredTexts = ScoredTexts(),
    hypotheses: Annotated[list[Path] | None, SEVERAL] = None,
    trees: TreeOptions = TreeOptions(),
    search: Annotated[SearchOptions, Parameter(name="*")] = SearchOptions(),
    device: Device = "auto",
    json_: bool = False,
) -> None:
    """Score a model, or a file of outputs, against reference translations or trees.

    ```
    allyouneed evaluate runs/multi30k --source test.en --reference test.de
    allyouneed evaluate runs/multi30k --pairs test.tsv
    allyouneed evaluate runs/multilingual --pairs en-de=test.de.tsv en-fr=test.fr.tsv
    allyouneed evaluate --hypotheses out.de --reference one.de other.de --json
    allyouneed evaluate --hypotheses one.de other.de --reference test.de
    allyouneed evaluate runs/parser --trees dev.mrg --labels
    allyouneed evaluate runs/parser --trees dev.mrg --lengths --length-plot lengths.png
    ```

    The first line is the score to report, such as `BLEU 34.6 (13a)`: sacreBLEU's for the language. Others
    follow: BLEU in every convention (if spaces part words) and why it differs, chrF, a model's perplexity.
    Compare two scores only if their signatures are equal. Given two files of translations, it also tests
    whether their BLEU scores differ significantly (paired bootstrap). With `--trees` it scores labelled
    brackets by EVALB's rules.

    Args:
        model: A run, a checkpoint in it, or a model folder, which translates the source.
        reference: Reference translations, one per line, not tokenised; several files if a sentence has more
            (an empty line: none). The perplexity is that of the first. Plain, compressed or `-`, stdin.
        texts: Texts to translate, and their languages.
        hypotheses: A file of translations of the reference's lines, instead of a model and a source; two such
            files to compare; or a file of trees.
        trees: Trees to score instead of translations.
        search: Search settings; by default the model's own.
        json_: Print one JSON object: name -> {"score", "signature"}; for two files, one object per file and
            their comparison.
    """
    if model is None and not hypotheses and len(texts.pairs) > 1:  # the MODEL is last
        model, texts = texts.pairs[-1], replace(texts, pairs=texts.pairs[:-1])
    elif model is None and not hypotheses and texts.source and reference and len(reference) > 1:
        *reference, model = reference
    _check_options(trees, hypotheses, search, bool(reference) or texts != ScoredTexts())
    is_alone = model is None and texts == ScoredTexts(target_language=texts.target_language)
    if trees.trees is not None:
        _evaluate_trees(trees.trees, model, hypotheses, trees, search, device, json_)
    elif not (reference or texts.pairs):
        raise UsageError("give --reference, a file of translations, or --trees, a file of gold trees")
    elif model is not None and not hypotheses and (texts.source or texts.pairs):
        _score_model(model, _sets(model, texts, reference), texts.target_language, device, json_, search)
    elif reference and is_alone and hypotheses and len(hypotheses) <= 2:
        _score_files(hypotheses, reference, texts.target_language or "", json_)
    else:
        raise UsageError("give a MODEL and --source, or --hypotheses with one or two files to score")


def _check_options(
    trees: TreeOptions, hypotheses: Sequence[Path] | None, search: SearchOptions, are_for_text: bool
) -> None:
    """Reject options that have no effect, and a plot that cannot be written."""
    if trees.trees is None and trees != TreeOptions():
        raise UsageError(
            "--unconstrained, --labels, --lengths, --length-plot: are for trees; add --trees FILE"
        )
    if hypotheses is not None and (trees.unconstrained or search.settings()):
        raise UsageError("--hypotheses: search settings have no effect on them; leave these out")
    if trees.length_plot:
        require_file(trees.length_plot)
    if trees.trees is not None and are_for_text:
        raise UsageError(
            "--trees: --source, --reference, --pairs, --target-language have no effect here; leave them out"
        )


def _print(scores: Sequence[Score], json_: bool) -> None:
    """Print scores as JSON, or a headline, a table, and why the BLEU scores differ."""
    if json_:
        print(json.dumps(scores_to_json(scores)))
        return
    print(f"{headline(scores[0])}\n{format_scores(scores)}")
    _explain(scores)


def _explain(scores: Sequence[Score]) -> None:
    first = scores[0]
    for score in scores:
        if score.name in EXPLANATIONS:
            is_recommended = score is first and score.name != "bleu_char"
            explanation = EXPLANATIONS[score.name] + ", recommended for reports" * is_recommended
            notice(f"{score.name} ({score.value - first.value:+.2f}): {explanation}")


def _sets(
    model: Path, texts: ScoredTexts, references: Sequence[Path] | None
) -> Mapping[Direction, Sequence[Sequence[str]]]:
    """Direction -> sources and references; of texts without names, the languages that are known at most."""
    files, readings = named_files(texts.pairs, both=texts.both_directions)
    if not readings:
        if len(files) > 1:
            raise UsageError("--pairs: give one file, or the direction of each: en-de=FILE en-fr=FILE")
        return {("", texts.to or ""): read_held_out(texts.source, references, next(iter(files), None), model)}
    if references or texts.source or texts.to or texts.target_language:
        raise UsageError(
            "--pairs en-de=FILE: names the languages; leave out --to, --target-language, --source and "
            "--reference"
        )
    return read_directed(files, readings)


def _score_model(
    model: Path,
    sets: Mapping[Direction, Sequence[Sequence[str]]],
    target_language: str | None,
    device: Device,
    json_: bool,
    search: SearchOptions,
) -> None:
    """Print the scores of a model's translations; of named directions, also the mean."""
    from allyouneed.runs.loading import load, load_translator, task_of

    task = task_of(model)
    if task.evaluate is None:
        raise ModelError("the model is a parser; score it with trees", settings=["trees"])
    is_directed = any(target for _, target in sets)
    loaded = (load_translator if is_directed else load)(model, device=device_kind(device))
    scores: dict[str, list[Score]] = {}
    options = {"target_language": target_language, "say": _notice, **search.settings()}
    for (source, target), texts in sets.items():
        told = cast("Translator", loaded).into(target, source) if target else loaded
        scores[f"{source}-{target}"] = found = task.evaluate(told, *texts, **options)
        if not source:
            _print(found, json_)
            return
    mean = sum(found[0].value for found in scores.values()) / len(scores)
    if json_:
        directions = {name: scores_to_json(found) for name, found in scores.items()}
        print(json.dumps({"directions": directions, "mean": mean}))
        return
    for name, found in scores.items():
        print(f"{name}: {headline(found[0])}\n{format_scores(found)}\n")
    print(f"mean of {len(scores)} directions: BLEU {mean:.2f}")


def _score_files(
    systems: Sequence[Path], references: Sequence[Path], target_language: str, json_: bool
) -> None:
    """Print the scores of one system, or of two side by side with a significance test."""
    lines = read_aligned(*systems, *references)
    texts, given = lines[: len(systems)], lines[len(systems) :]
    metrics = translation_metrics(target_language, given[0], _notice)
    scores = [[metric(text, *given) for metric in metrics] for text in texts]
    if len(texts) == 1:
        _print(scores[0], json_)
        return
    from allyouneed.evaluation.significance import paired_bootstrap

    test = paired_bootstrap(*texts, *given, tokens=choose_tokens(target_language, given[0]))
    name = scores[0][0].name
    if json_:
        comparison = {"difference": test.difference, "p_value": test.p_value, "interval_95": test.interval}
        comparison |= {"signature": test.signature, "sentences": test.num_sentences}
        print(json.dumps({"systems": [scores_to_json(each) for each in scores], name: comparison}))
        return
    print(headline(scores[0][0], scores[1][0]))
    width = max(len(score.name) for score in scores[0])
    for one, other in zip(*scores, strict=True):
        change = f"{other.value - one.value:+.2f}"
        print(f"{one.name:<{width}}  {one.value:8.2f}  {other.value:8.2f}  {change:>7}  {one.signature}")
    low, high = test.interval
    print(
        f"{name} differs by {test.difference:+.2f} (95% interval {low:+.2f} to {high:+.2f}), "
        f"p = {test.p_value:.3f}: {test.verdict}"
    )
    _explain(scores[0])


def _evaluate_trees(
    trees: Path,
    model: Path | None,
    hypotheses: Sequence[Path] | None,
    options: TreeOptions,
    search: SearchOptions,
    device: Device,
    json_: bool,
) -> None:
    if "mbr" in search.settings():
        raise UsageError("--mbr: is for translations only; leave it out")
    if model is not None and hypotheses is None:
        constrained = not options.unconstrained
        scored = _score_parser(model, trees, device, constrained=constrained, **search.settings())
    elif model is None and hypotheses is not None and len(hypotheses) == 1:
        scored = score_tree_file(hypotheses[0], trees)
    else:
        raise UsageError(
            "with --trees, give a MODEL that parses their words, or --hypotheses, a file of trees"
        )
    _print_tree_scores(*scored, labels=options.labels, lengths=options.lengths, as_json=json_)
    if options.length_plot:
        from allyouneed.tasks.plots import plot_f1_by_length

        plot_f1_by_length(scored[0], options.length_plot)


def _score_parser(
    model: Path, trees: Path, device: Device, **options: "Unpack[ParseOptions]"
) -> tuple[BracketScores, list[Score]]:
    """Parse the words of the gold trees with a model, and score; `options` are those of `Parser.parse`."""
    from allyouneed.runs.loading import load_parser
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.tasks.parsing.task import parse_words, score_parses

    gold = _read(trees).trees
    parser = load_parser(model, device=device_kind(device))
    answers = list(parse_words(parser, gold, **options))
    errors = [answer.error for answer in answers if isinstance(answer, Failure)]
    if errors:
        notice(
            f"{trees}: {len(errors):,} of {len(gold):,} sentences are not parsed, and count as trees without "
            f"constituents; the first: {errors[0].messages[0]}"
        )
    return score_parses(parser, gold, list(results(answers, NO_PARSE)))


def score_tree_file(hypotheses: Path, trees: Path) -> tuple[BracketScores, list[Score]]:
    """Compare a file of trees with the gold trees; score their tags too, if they have any.

    A sentence without a tree is an empty line, if each tree is on one line, or a tree without words, such as
    `(())`. It is scored as a tree without constituents. A gold sentence without a tree is not scored.
    """
    gold, found = _read(trees), _read(hypotheses, is_gold=False)
    numberings = ((wanted, given) for given in found.numberings() for wanted in gold.numberings())
    pairs = next((pair for pair in numberings if len(pair[0]) == len(pair[1])), None)
    if pairs is None and not found.entries:
        raise _no_tree(hypotheses)
    if pairs is None:
        raise DataError(
            f"{len(gold.sentences):,} gold trees but {len(found.sentences):,} on {found.num_lines:,} lines "
            f"of {hypotheses}; give one for each, or a line for each, empty where there is no tree"
        )
    sums = score_trees(*pairs)
    scored = [tree for wanted, tree in zip(*pairs, strict=True) if wanted]
    scores = sums.scores(tagged=any(tag != WORD for tree in scored if tree for tag in tree.tags))
    share_found = 100 * sum(tree is not None for tree in scored) / len(scored)
    return sums, [*scores, Score("well_formed", share_found, "trees:on-lines-that-are-not-empty")]


def _print_tree_scores(
    sums: BracketScores, scores: list[Score], *, labels: bool, lengths: bool, as_json: bool
) -> None:
    if as_json:
        of_labels = {label: vars(brackets) for label, brackets in sums.by_label.items()}
        of_lengths = {
            words_of(tens): vars(brackets) | {"sentences": sums.num_by_length[tens]}
            for tens, brackets in sorted(sums.by_length.items())
        }
        tables = ({"labels": of_labels} if labels else {}) | ({"lengths": of_lengths} if lengths else {})
        print(json.dumps(scores_to_json(scores) | tables))
        return
    print(headline(scores[0]))
    texts = [format_scores(scores), sums.label_table() * labels, sums.length_table() * lengths]
    print("\n\n".join(filter(None, texts)))


def _no_tree(path: Path) -> DataError:
    return DataError(f"{path}: holds no tree; give a file of trees in brackets")


@dataclass
class _TreeFile:
    """The trees of a file, cleaned; None for each that has no word."""

    entries: list[Tree | None] = field(default_factory=list)
    """All trees, also those that are no sentence: codes or traces alone."""
    sentences: list[Tree | None] = field(default_factory=list)
    """The trees of sentences; None if the parser failed."""
    starts: list[int] = field(default_factory=list)
    """Number of the line where each of `entries` begins."""
    num_lines: int = 0
    written: list[int] = field(default_factory=list)

    @property
    def trees(self) -> list[Tree]:
        return [tree for tree in self.entries if tree]

    def numberings(self) -> Iterator[Sequence[Tree | None]]:
        """The trees by line, if each has its own; then as numbered in files that lack some of them."""
        if self.starts == self.written:
            tree_of_line = dict(zip(self.starts, self.entries, strict=True))
            yield [tree_of_line.get(number) for number in range(1, self.num_lines + 1)]
        yield from (self.entries, self.sentences, self.trees)


def _read(path: Path, *, is_gold: bool = True) -> _TreeFile:
    """The trees of a file; notices say what was removed, and which gold sentences are left out.

    Raises:
        DataError: A gold file has no tree.
    """
    notes, lines = Counter[str](), list(read_lines(path, allow_nul=False))
    written = [number for number, line in enumerate(lines, start=1) if not is_blank(line)]
    file = _TreeFile(num_lines=len(lines), written=written)
    for placed in trees_in(lines, str(path), notes):
        tree = next((cleaned for cleaned, _ in clean_trees([placed], notes)), None)
        file.entries.append(tree)
        file.starts.append(placed.line_number)
        file.sentences += [tree] if tree or not placed.tree.words else []
    for what, number in notes.items():
        if number and (is_gold or what != UNPARSED):
            notice(f"{path}: {number:,} {what}")
    if is_gold and not file.trees:
        raise _no_tree(path)
    return file
