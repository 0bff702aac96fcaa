"""The kernels of decoding on a CPU, in C; see docs/decisions/native-kernels.md."""
