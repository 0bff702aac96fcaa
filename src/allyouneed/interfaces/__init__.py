"""The doors to the system: the `allyouneed` program and its commands."""
