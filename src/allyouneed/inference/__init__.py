"""Decoding (paper 6.1): token ids in, hypotheses, scores and attention weights out."""

from allyouneed.inference.attention_capture import AttentionWeights, capture_attention
from allyouneed.inference.engine import Engine
from allyouneed.inference.generate import generate
from allyouneed.inference.scoring import TargetScore, score_targets
from allyouneed.inference.search import Decoding, Hypothesis, beam_search, length_penalty

__all__ = [
    "AttentionWeights",
    "Decoding",
    "Engine",
    "Hypothesis",
    "TargetScore",
    "beam_search",
    "capture_attention",
    "generate",
    "length_penalty",
    "score_targets",
]
