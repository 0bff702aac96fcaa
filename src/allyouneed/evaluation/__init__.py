"""Scores from strings and numbers (paper 6), each with a signature that makes it comparable."""
