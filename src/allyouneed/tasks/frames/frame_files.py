"""The files of a corpus of frames: pairs of the path of a file with frames, and its text."""

import math
from dataclasses import dataclass, replace

from allyouneed.data.corpus import CleaningLimits
from allyouneed.data.corpus_files import CorpusFiles


@dataclass(frozen=True)
class FrameFiles(CorpusFiles):
    """Files of pairs as in `CorpusFiles`, but sources are paths; `max_tokens` drops those of many frames."""

    @property
    def limits(self) -> CleaningLimits:
        """Limits on pairs: the length of a path does not matter."""
        return replace(super().limits, max_length_ratio=math.inf)
