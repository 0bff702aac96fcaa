"""Results of experiments as pages, tables and files."""
