"""The hardware of a run: devices, memory, threads, precision and energy."""
