"""`python -m allyouneed` and the `allyouneed` program."""


def main() -> None:
    """Run the command line."""
    from allyouneed.interfaces.cli import run

    run()


if __name__ == "__main__":
    main()
