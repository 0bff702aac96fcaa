"""The Transformer (paper 3) and its rivals: tensors in, tensors out.

Axis names in the signatures: `batch` (sentences), `source_len` and `target_len` (tokens), `query_len` and
`key_len` (tokens of either side), `heads`, `d_model`, `d_ff`, `d_k` and `d_v` (as in the paper), and `vocab`
(entries of a vocabulary). A mask is True where a query may attend.
"""
