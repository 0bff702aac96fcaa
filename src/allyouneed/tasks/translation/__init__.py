"""Translation (paper 5 to 6.2): raw text in, raw text out."""
