"""Texts with tags inside: what is translated of a document, and where its tags belong in the translation."""
