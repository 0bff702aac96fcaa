"""What runs are computed on: devices, memory, threads, precision and energy."""
