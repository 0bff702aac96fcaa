"""Tests of differences between rows of results."""
