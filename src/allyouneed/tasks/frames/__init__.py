"""Frames (paper 7): vectors such as those of speech or of handwriting in, text out."""
