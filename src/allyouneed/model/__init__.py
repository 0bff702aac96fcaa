"""The Transformer (paper 3): tensors in, tensors out.

Names of axes in the signatures: `batch` sentences, `source_len` and `target_len` tokens, `query_len` and
`key_len` where either may be meant, `heads`, `d_model`, `d_ff`, `d_k`, `d_v` as in the paper, `vocab`
entries. A mask is True where a query may attend.
"""

from allyouneed.model.transformer import Transformer

__all__ = ["Transformer"]
