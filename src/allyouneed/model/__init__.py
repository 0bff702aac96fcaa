"""The Transformer (paper 3) and its rivals: tensors in, tensors out.

Axis names in the signatures: `batch` (sentences), `source_len` and `target_len` (tokens), `query_len` and
`key_len` (tokens of either side), `heads`, `d_model`, `d_ff`, `d_k` and `d_v` (as in the paper), and `vocab`
(entries of a vocabulary). A mask is True where a query may attend.
"""

from allyouneed.model.architectures import build_model, count_parameters, outline_model
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.transformer import Transformer

__all__ = ["EncoderDecoder", "Transformer", "build_model", "count_parameters", "outline_model"]
