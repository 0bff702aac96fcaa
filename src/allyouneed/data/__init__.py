"""Text in, integer batches out (paper 5.1); numpy only, no PyTorch."""
