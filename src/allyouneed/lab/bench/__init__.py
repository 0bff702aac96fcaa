"""The benchmarks of `allyouneed bench`: contenders take turns at the same work."""
