"""What `allyouneed bench` runs: contenders that do the same work in turns."""
