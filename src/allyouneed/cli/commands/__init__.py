"""The commands of the `allyouneed` program, one module each; `cli/program.py` lists them."""
