"""A translator on a scheduler that many callers share."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Unpack

from allyouneed.config.run import RunConfig
from allyouneed.data.words import has_letters
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.futures import gather
from allyouneed.inference.scheduler import Scheduler, Source
from allyouneed.inference.search_plan import SearchPlan
from allyouneed.tasks.translation.options import TranslateOptions, check_n_best, configured
from allyouneed.tasks.translation.outputs import space_between_sentences
from allyouneed.tasks.translation.parts import PartMaker
from allyouneed.tasks.translation.submission import EncodedLines, TranslatedText, submit_lines
from allyouneed.tasks.translation.text_encoder import TextEncoder

_LEAST_LOG_PROB = math.log(0.001)


class QueuedTranslator:
    """Queues translations. Made by `Translator.on`; any number of threads may use it.

    Args:
        engine: The engine, or the ensemble, that decodes.
        config: Configuration of the model; `config.search` has the defaults of calls.
        encoder: Encodes texts.
        scheduler: The scheduler; its limits hold for batches.
    """

    def __init__(
        self, engine: Engine | Ensemble, config: RunConfig, encoder: TextEncoder, scheduler: Scheduler
    ) -> None:
        self._engine, self._config, self._encoder, self._scheduler = engine, config, encoder, scheduler

    def submit(
        self,
        text: str,
        *,
        prefix: str | Sequence[int] = "",
        n_best: int = 1,
        deadline: float | None = None,
        tell: Callable[[str], None] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Future[TranslatedText]:
        """Queue the translation of a text of any number of lines; line breaks are kept.

        Args:
            text: A text; each line is translated as `Translator.answer` translates a text.
            prefix: Whole words, or token ids, that the translation begins with.
            n_best: Maximum number of translations.
            deadline: Value of `time.monotonic()` after which the translation fails with `TimeoutError`.
            tell: Called by a worker with the beginning of the translation that can no longer change, whenever
                it has become longer; never with sampling, `mbr` or a coverage penalty.
            **options: See `Translator.answer`.

        Returns:
            The future of the translations; it can be cancelled until it is done.

        Raises:
            DataError: The text is not Unicode, or too long and not to be split.
            UsageError: An option is unknown, out of range, or has no effect.
        """
        config, search = configured(options, self._config.search)
        check_n_best(n_best, search.mbr)
        if search.sampling or search.mbr or search.coverage_penalty:
            tell = None  # nothing is certain before the end
        divider = self._encoder.divider(config)
        divided = [divider.divide(line) for line in text.split("\n")]
        ids = self._encoder.prefix(prefix) if isinstance(prefix, str) else prefix
        return submit_lines(
            self._scheduler,
            SearchPlan(self._engine, search, search.mbr or n_best),
            EncodedLines(divided, ids),
            PartMaker(self._encoder.source_tokenizer, self._encoder.target_tokenizer, search, n_best),
            space_between_sentences(self._config.data.target_language),
            deadline=deadline,
            tell=tell,
        )

    def continuations(
        self, text: str, prefix: str, num: int, *, deadline: float | None = None
    ) -> Future[list[list[int]]]:
        """Queue the search for the likeliest next tokens of a translation.

        Args:
            text: A sentence.
            prefix: Whole words that the translation begins with.
            num: Maximum number of next tokens.
            deadline: See `submit`.

        Returns:
            The future of the prefix's ids with each next token, the likeliest first, as prefixes for
            `submit`; tokens with a probability of less than 0.001 are left out.

        Raises:
            DataError: The text or the prefix is not Unicode, or too long.
        """
        source, ids = self._encoder.source(text), self._encoder.prefix(prefix)
        if not has_letters(self._encoder.own_text(text)):
            source = []  # it stays as it is
        options = {"beam_size": num, "max_length": len(ids) + 1, "min_length": 0, "early_stopping": False}
        search = self._config.search.replace(
            **options, sampling=False, mbr=None, coverage_penalty=0.0, alignments=False
        )
        future = self._scheduler.submit(
            SearchPlan(self._engine, search, num), Source(source, ids), deadline=deadline
        )
        return gather([future], lambda found: [each.ids for each in found[0] if _is_likely(each, ids)])


def _is_likely(begun: Hypothesis, prefix: Sequence[int]) -> bool:
    return len(begun.ids) > len(prefix) and begun.token_log_probs[-1] > _LEAST_LOG_PROB
