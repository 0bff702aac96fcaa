"""The page on which the attention of a model is explored: one file, which loads nothing from elsewhere."""

from allyouneed.explorer.page import attention_frame, attention_page

__all__ = ["attention_frame", "attention_page"]
