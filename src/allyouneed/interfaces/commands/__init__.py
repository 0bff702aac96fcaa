"""The commands of the `allyouneed` program, one module each; `interfaces/cli.py` lists them."""
