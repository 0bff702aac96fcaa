"""Interactive attention page: one self-contained HTML file that loads nothing."""

from allyouneed.explorer.page import attention_frame, attention_page

__all__ = ["attention_frame", "attention_page"]
