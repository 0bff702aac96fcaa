"""The version of the tool, recorded in everything that it writes."""

__version__ = "0.1.0"
