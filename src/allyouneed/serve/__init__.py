"""The HTTP server: models behind their own endpoints, the protocols of other software, and a page."""
