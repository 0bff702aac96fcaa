"""The Transformer (paper 3) and its rivals: tensors in, tensors out.

Names of axes in the signatures: `batch` sentences, `source_len` and `target_len` tokens, `query_len` and
`key_len` where either may be meant, `heads`, `d_model`, `d_ff`, `d_k`, `d_v` as in the paper, `vocab`
entries. A mask is True where a query may attend.
"""

from allyouneed.model.architectures import build_model, count_parameters
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.transformer import Transformer

__all__ = ["EncoderDecoder", "Transformer", "build_model", "count_parameters"]
