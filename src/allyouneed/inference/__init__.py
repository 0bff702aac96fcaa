"""Decoding (paper 6.1): token ids in, hypotheses, scores and attention weights out."""
