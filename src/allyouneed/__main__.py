"""`python -m allyouneed` and the `allyouneed` program."""

import sys


def main() -> None:
    """Run the command line; on Windows, which has no `fcntl`, say where it runs, with exit code 2."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        message = (
            "runs on Linux and macOS; on Windows, install it in WSL (https://learn.microsoft.com/windows/wsl)"
        )
        print(f"allyouneed: error[E-USAGE]: {message}", file=sys.stderr)
        sys.exit(2)
    from allyouneed.cli.program import run

    run()


if __name__ == "__main__":
    main()
