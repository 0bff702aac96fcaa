"""Model export to other software, one module per format; exports are published after a parity check."""
