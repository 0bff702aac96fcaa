"""What translations must keep: spans that are not translated, terms of a glossary, a translation memory."""
