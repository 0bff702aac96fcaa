"""What researchers run: the paper's experiments, their statistics, benchmarks, and a demonstration."""
