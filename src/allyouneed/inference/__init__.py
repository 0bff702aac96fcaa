"""Decoding (paper 6.1): token ids in, hypotheses, scores and attention weights out."""

from allyouneed.inference.attention_weights import AttentionWeights, capture_attention
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import follow, generate
from allyouneed.inference.scoring import TargetScore, score_pairs, score_targets
from allyouneed.inference.search import BeamSearch, Decoding, length_penalty
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.selection import Constraint

__all__ = [
    "AttentionWeights",
    "Batching",
    "BeamSearch",
    "Constraint",
    "Decoding",
    "Engine",
    "Ensemble",
    "Hypothesis",
    "SearchRequest",
    "TargetScore",
    "capture_attention",
    "follow",
    "generate",
    "length_penalty",
    "score_pairs",
    "score_targets",
]
