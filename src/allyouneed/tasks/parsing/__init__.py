"""Constituency parsing (paper 6.3): raw sentences in, trees out."""
