"""User interfaces: the `allyouneed` program and its commands."""
