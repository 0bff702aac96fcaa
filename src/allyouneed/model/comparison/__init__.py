"""What the paper compares self-attention with (section 4): the layers of Table 1."""
