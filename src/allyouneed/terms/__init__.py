"""Given parts of translations: spans that stay, terms of a glossary, texts of a translation memory."""
