"""Training (paper 5.2 to 5.4): loss, optimizer, updates, checkpoints and their average."""
