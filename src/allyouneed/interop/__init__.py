"""Models for other software, a file a format; what is published has been run there and agrees."""
