"""For researchers: the paper's experiments, their statistics, benchmarks, and a demonstration."""
