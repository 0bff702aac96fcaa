"""The layers of Table 1, with which the paper compares self-attention (section 4)."""
