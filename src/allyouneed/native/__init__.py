"""C kernels for decoding on a CPU; see docs/decisions/native-kernels.md."""
