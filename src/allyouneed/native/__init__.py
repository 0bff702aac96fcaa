"""C kernels for a CPU: for decoding, and for parts of training; see docs/decisions/native-kernels.md."""
