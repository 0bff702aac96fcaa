"""`allyouneed translate`: translates standard input, line by line or as a document."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from allyouneed.cli.document_stream import in_documents, translate_document, translate_into
from allyouneed.cli.kept_text import KeptText
from allyouneed.cli.line_output import LineOutput, StreamOutput, parts_output, resumed_output
from allyouneed.cli.request_lines import (
    STANDARD_INPUT,
    FailureLog,
    Format,
    JsonLines,
    PlainText,
    input_windows,
)
from allyouneed.cli.segment_report import SegmentReport
from allyouneed.cli.shared_options import (
    AtLeastOne,
    Computing,
    Engine,
    Outputs,
    SearchOptions,
)
from allyouneed.data.prose import not_prose_in
from allyouneed.errors import DataError, UsageError, in_flags, notice
from allyouneed.storage.publish import MANIFEST, sha256_of
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.requests import Failure, TranslationRequest
from allyouneed.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allyouneed.cli.request_lines import Answered
    from allyouneed.data.lines import Line
    from allyouneed.runs.cluster_translation import ClusterTranslator
    from allyouneed.tasks.translation.line_documents import DocumentTranslator
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.terms.keeping import KeepingTranslator

    Stream = Callable[[Iterable[TranslationRequest | Failure]], Iterator[Answered]]
    Check = Callable[[str, Translation], str | None]
    Answering = Translator | KeepingTranslator | DocumentTranslator


_WITHOUT_EFFECT = "batch_tokens", "batch_size", "workers"
"""Options that answers do not depend on."""
_FOR_LINES = (
    *("n_best", "scores", "alignments", "jsonl", "target_prefix"),
    *("split_sentences", "strict", "resume_output", "parts", "document"),
)
"""Options without effect on a document."""
_NOT_IN_DOCUMENTS = tuple(name for name in _FOR_LINES if name not in ("strict", "document"))
"""Options without effect on the lines of `--document`."""


@Parameter(name="*")
@dataclass(frozen=True)
class TextLines:
    """Format of input and output lines."""

    n_best: Outputs | None = None
    """Write the N best translations of each line, or N samples, as LINE TAB RANK TAB SCORE TAB TEXT; always N
    rows per line, padded with empty ones. N is at most the beam size or the samples of --mbr, unless
    --sampling is given."""
    scores: bool = False
    """Write SCORE TAB TEXT: the log-probability divided by the length penalty or, with --mbr, the expected
    utility."""
    alignments: bool = False
    """Append TAB ALIGNMENT: pairs of source and target words, such as `0-0 1-2`."""
    jsonl: bool = False
    """Read a JSON object per line (text, id, target_prefix, to, from) and write one (id, translations or
    error)."""
    to: str = ""
    """Code of the language to write, such as fr, for a model of several. Without it, each line begins with a
    symbol such as `>>fr<<`; with --jsonl, it is for objects without a key `to`."""
    source: Annotated[str, Parameter(name="--from")] = ""
    """Code of the language of the lines, such as en, for a model that must be told it (M2M-100, NLLB); with
    --jsonl, for objects without a key `from`."""
    target_prefix: str = ""
    """First words of each translation (but of a text without letters); with --jsonl, of objects without a
    target_prefix."""
    split_sentences: bool = False
    """Split each line into sentences, translate them separately, and join the translations."""
    document: AtLeastOne | None = None
    """Translate up to N lines at a time as one document, by a model trained on lines joined by ` ¶ `; a blank
    line ends a document. A document that comes back with another number of lines is translated line by
    line, and a notice counts these."""
    too_long: Literal["split", "error"] = "split"
    """Lines too long for the model: translate them in parts, with a notice, or report an error."""
    markup: Literal["html", "xml"] | None = None
    """Read the whole input as one document, or a part of one, and write it with its texts translated,
    sentence by sentence; tags stay around the words that they belong to."""
    attributes: str = ""
    """Attributes whose texts are translated, too, such as `alt,title,placeholder`; only with --markup."""
    strict: bool = False
    """Stop with an error (exit code 3) at the first line that has markup, time codes, keys of catalogues,
    placeholders or addresses. By default they are translated as words, and a notice names the first one."""
    resume_output: Path | None = None
    """Write to this file, and continue it if an earlier run was interrupted; repeat the same model, options
    and input."""
    parts: Path | None = None
    """Write files of 8,192 answers into this folder, local or at a URL such as `s3://bucket/german`, and
    continue if an earlier run was interrupted."""

    def form(self) -> Format:
        """How lines are read and written."""
        if self.jsonl and self.scores:
            raise UsageError("--scores: --jsonl always writes scores; leave it out")
        if self.parts and self.resume_output:
            raise UsageError("--parts and --resume-output: name one of them")
        if self.document and (given := self._given(_NOT_IN_DOCUMENTS)):
            raise UsageError(f"{given[0]}: is for single lines, not for --document; leave it out")
        if self.attributes and not self.markup:
            raise UsageError("--attributes: is for documents; add --markup html or xml")
        return JsonLines() if self.jsonl else PlainText(self.n_best, self.scores, self.alignments)

    def _given(self, names: Sequence[str]) -> list[str]:
        """The options of these names that are given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]

    def _require_for_document(self, engine: Engine) -> None:
        wrong = self._given(_FOR_LINES)
        if wrong := [*wrong, *([f"--engine {engine}"] if engine != "local" else [])]:
            raise UsageError(f"{wrong[0]}: is for lines, not for a file or --markup; leave it out")

    def settings(self, engine: Engine, *, is_file: bool) -> dict[str, Any]:
        """The options for the translator; an error if options contradict each other."""
        self.form()
        if self.markup and is_file:
            raise UsageError("--markup: the ending of a file tells its format; leave it out")
        if self.markup or is_file:
            self._require_for_document(engine)
        return {
            "n_best": self.n_best or 1,
            "alignments": self.alignments,
            "split_sentences": self.split_sentences,
            "too_long": self.too_long,
        }


def translate(
    models: list[Path],
    /,
    *,
    search: Annotated[SearchOptions, Parameter(name="*")] = SearchOptions(),
    lines: TextLines = TextLines(),
    kept: KeptText = KeptText(),
    batch_tokens: AtLeastOne | None = None,
    batch_size: AtLeastOne | None = None,
    shortlist: Path | None = None,
    draft: Path | None = None,
    engine: Engine = "local",
    computing: Computing = Computing(),
) -> int:
    """Translate standard input, line by line or as a document, or a file into another.

    ```
    allyouneed translate runs/first < test.en > output.de
    echo "A dog runs." | allyouneed translate models/first --beam-size 8 --n-best 4 --scores
    allyouneed translate models/first --split-sentences --resume-output book.de < book.en
    echo '{"id": 7, "text": "A dog runs."}' | allyouneed translate models/several --to fr --jsonl
    allyouneed translate models/documents --document 16 < chapter.en > chapter.de
    allyouneed translate models/first --markup html --attributes alt,title < page.html > seite.html
    allyouneed translate models/first report.docx bericht.docx
    allyouneed translate runs/seed1 runs/seed2 runs/seed3 < test.en > output.de
    allyouneed translate runs/first --mbr 64 --top-p 0.95 < test.en > output.de
    allyouneed translate runs/first --keep --glossary terms.tsv --memory old.tmx < test.en > output.de
    RAY_ADDRESS=head:6379 allyouneed translate models/de-en --engine ray --parts s3://bucket/en < news.de
    ```

    Writes one line per input line, in the same order. A line that cannot be translated (because it is not
    UTF-8, say) gives an empty line and a message on standard error, and the exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several models form an ensemble. After these, if
            files are translated, the one to read (such as txt, docx, odt, srt, po, json) and that to write.
        search: Search settings; by default the model's own, such as the paper's beam of 4 and penalty of 0.6.
        lines: Format of input and output lines.
        kept: Spans, terms and whole texts whose translations are given.
        batch_tokens: Maximum source tokens per batch, times beams or samples; default 8,192, on a GPU more.
        batch_size: Maximum lines per batch.
        shortlist: A folder made by `allyouneed shortlist`; restricts outputs to its sub-words, for speed.
        draft: A student of the model, which proposes tokens; implies --blockwise.
        computing: Precision, parallelism and device.
    """
    loading = computing.for_loading() if engine == "local" else {}
    models, files = _split(models)
    asked: dict[str, Any] = {**search.settings(), **lines.settings(engine, is_file=bool(files))}
    asked |= {"blockwise": True} if draft else {}
    asked |= {"workers": computing.workers, "batch_tokens": batch_tokens, "batch_size": batch_size}
    with _loaded(models, shortlist, lines, draft, loading) as translator:
        if not (files or lines.markup):
            return _translate_lines(translator, models, shortlist, asked, lines, kept, engine, computing)
        with SegmentReport.appended_to(kept.report, [*(files or ()), *kept.files]) as report:
            keeping = kept.translator(translator, engine, shortlist)
            if not files:
                return translate_document(keeping, str(lines.markup), lines.attributes, asked, report)
            request = _request([*models, shortlist], lines, kept, asked, computing)
            return translate_into(keeping, *files, request, asked, report)


@contextlib.contextmanager
def _loaded(
    models: list[Path],
    shortlist: Path | None,
    lines: TextLines,
    draft: Path | None,
    loading: dict[str, Any],
) -> Iterator["Translator"]:
    """The models, ready; at the end, tell what blockwise decoding has done, if there was any."""
    from allyouneed.hardware.allocator import give_back_freed_memory
    from allyouneed.runs.loading import load_translator

    give_back_freed_memory()
    if draft and not loading:
        raise UsageError("--draft: is for this machine; leave out --engine")
    translator = load_translator(
        *models, shortlist=shortlist, to=lines.to, source=lines.source, draft=draft, **loading
    )
    yield translator
    counts = translator.engine.block_counts
    if counts.num_blocks:
        notice(f"--blockwise: {counts.mean_block:.2f} tokens a block, {counts.num_blocks:,} blocks")
    if num := counts.num_one_by_one:
        told = f"{num:,} tokens were written one by one, which is faster for several sentences at once"
        notice(f"--blockwise: {told} (--batch-size 1 reads blocks)")


def _split(paths: list[Path]) -> tuple[list[Path], tuple[Path, Path] | None]:
    """The models, of a run that goes on the latest, and the file to translate with that to write, if any."""
    if not any(path.suffix and not path.is_dir() for path in paths):
        return [*map(resolve_model, paths)], None
    from allyouneed.files.formats import FORMATS, format_of

    are_files = [
        not path.is_dir() and (path.suffix.lower() in FORMATS or (len(paths) > 2 and path.is_file()))
        for path in paths
    ]
    if not any(are_files):
        return [*map(resolve_model, paths)], None
    first = are_files.index(True)
    format_of(str(paths[first]))  # is known
    if not 0 < first == len(paths) - 2:
        raise UsageError(
            f"{paths[first]}: name a model first, then the file to translate and the one to write"
        )
    return [*map(resolve_model, paths[:-2])], (paths[-2], paths[-1])


def _translate_lines(
    translator: "Translator",
    models: list[Path],
    shortlist: Path | None,
    asked: dict[str, Any],
    lines: TextLines,
    kept: KeptText,
    engine: Engine,
    computing: Computing,
) -> int:
    """Translate the lines of standard input as `asked`; return the exit code."""
    if lines.document and (kept.is_wanted or engine != "local"):
        raise UsageError("--document: cannot be used with --keep, --glossary, --memory or --engine ray")
    with contextlib.ExitStack() as stack:
        answering: Answering = translator
        if lines.document:
            answering = stack.enter_context(in_documents(translator, lines.document))
        elif kept.is_wanted:
            answering = kept.translator(translator, engine, shortlist)
        stream: Stream = partial(answering.answer, **asked)
        _require_possible(stream, lines.target_prefix, shortlist)
        request = partial(_request, [*models, shortlist], lines, kept, asked, computing)
        report = stack.enter_context(
            SegmentReport.appended_to(kept.report, [lines.resume_output, *kept.files])
        )
        output = stack.enter_context(_output(lines, request))
        if engine == "ray":
            stream = partial(_on_cluster(stack, models, shortlist, computing).answer, **asked)
        in_one, unkept = bool(engine == "ray" or lines.parts or lines.document), kept.unkept()
        checks = _checks(translator, asked, lines.strict, unkept)
        return _answer(lines, unkept, output, stream, checks, report, in_one=in_one)


def _require_possible(stream: "Stream", target_prefix: str, shortlist: Path | None) -> None:
    if target_prefix and shortlist:
        raise UsageError("--target-prefix: cannot be used with --shortlist; leave out one")
    for answer in stream([TranslationRequest(0, "", target_prefix)]):
        if isinstance(answer, Failure):
            raise answer.error


def _checks(
    translator: "Translator", asked: Mapping[str, Any], strict: bool, unkept: Callable[[str], str]
) -> "list[Check]":
    """The checks whose first finding is reported; prose is what `unkept` leaves of a text."""
    from allyouneed.tasks.translation.outputs import CUT

    def not_prose(text: str, _: "Translation") -> str | None:
        found = not_prose_in(unkept(text))
        return found and f"{found}, which is translated as words: it may be lost; --strict refuses it"

    def lost_sentences(text: str, translation: "Translation") -> str | None:
        lost = translator.lost_sentences(text, translation.text, too_long=asked["too_long"])
        return lost and in_flags(lost, ["split_sentences"])

    def cut(_: str, translation: "Translation") -> str | None:
        return CUT if translation.is_cut else None

    wanted = {
        not_prose: not strict,
        lost_sentences: not asked["split_sentences"],
        cut: asked.get("max_length") is None,
    }
    return [check for check, is_wanted in wanted.items() if is_wanted]


def _answer(
    lines: TextLines,
    unkept: Callable[[str], str],
    output: LineOutput,
    stream: "Stream",
    checks: "list[Check]",
    report: SegmentReport,
    *,
    in_one: bool,
) -> int:
    """Translate the lines that are there, again and again, or all `in_one`; return the exit code."""
    form, failures = lines.form(), FailureLog(STANDARD_INPUT, f"{STANDARD_INPUT}:{{}}")
    windows: Iterator[Iterable[Line]] = input_windows()
    for window in [chain.from_iterable(windows)] if in_one else windows:
        read = partial(form.read, prefix=lines.target_prefix, to=lines.to, source=lines.source)
        requests, to_answer = tee(map(read, output.wanted(window)))
        for asked, answer in zip(requests, stream(each.request for each in to_answer), strict=True):
            text = "" if isinstance(asked.request, Failure) else asked.request.text
            if lines.strict and (found := not_prose_in(unkept(text))):
                place = f"{STANDARD_INPUT}:{asked.request.id}"
                raise DataError(f"{place}: {found}, which is not prose; take it out, or leave out --strict")
            output.write(form.write(asked, failures.record(answer)))
            if isinstance(answer, Failure) or isinstance(asked.request, Failure):
                continue
            report.record(text, answer.result[0], asked.request.id)
            for check in [*checks]:
                if found := check(text, answer.result[0]):
                    notice(f"{STANDARD_INPUT}:{answer.id}: {found} (later texts are not checked)")
                    checks.remove(check)
    output.finish()
    return failures.exit_code() or report.exit_code()


def _on_cluster(
    stack: contextlib.ExitStack, models: list[Path], shortlist: Path | None, computing: Computing
) -> "ClusterTranslator":
    """A translator on a cluster, which ends with the stack."""
    from allyouneed.hardware.cluster import Cluster
    from allyouneed.runs.cluster_translation import ClusterTranslator

    cores = None if computing.workers is None else computing.workers * computing.threads
    cluster = stack.enter_context(Cluster(cores))
    computed = {name: getattr(computing, name) for name in ("device", "precision", "threads")}
    return ClusterTranslator(cluster, models, shortlist=shortlist, **computed)


def _request(
    directories: Sequence[Path | None],
    lines: TextLines,
    kept: KeptText,
    asked: dict[str, Any],
    computing: Computing,
) -> str:
    """The models and options that answers depend on."""
    manifests = [
        sha256_of(file) for file in (*(each / MANIFEST for each in directories if each), *kept.files)
    ]
    computed = {key: value for key, value in asked.items() if key not in _WITHOUT_EFFECT}
    form = replace(lines, parts=None, strict=False)
    spans = (kept.keep, kept.keep_patterns, kept.suggest_terms) if kept.is_wanted else ()
    return repr((__version__, manifests, form, *spans, sorted(computed.items()), computing.precision))


@contextlib.contextmanager
def _output(lines: TextLines, request: Callable[[], str]) -> Iterator[LineOutput]:
    """Standard output, or the file or folder to continue."""
    if lines.parts is not None:
        from allyouneed.cli.progress import progress  # which takes a while

        with (
            progress(None, unit="lines", description="translate") as shown,
            parts_output(lines.parts, request(), shown.advance, shown.skip) as parts,
        ):
            if parts.num_parts:
                notice(f"--parts: continuing; {parts.num_parts:,} of the parts are there")
            yield parts
    elif lines.resume_output is not None:
        with resumed_output(lines.resume_output, lines.form().rows_per_line) as output:
            if output.num_answers:
                notice(f"{lines.resume_output}: continuing at line {output.num_answers + 1:,}")
            yield output
    else:
        yield StreamOutput(sys.stdout.fileno())
