"""Rows of results in aligned columns."""

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]], gap: int = 2) -> Iterator[str]:
    """The rows as lines: the first two columns to the left, the others to the right.

    Args:
        rows: Cells, as many in every row; the first row holds the titles.
        gap: Spaces between the second column and the third.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[1] += gap - 2
    for row in rows:
        left = (cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True))
        right = (cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))
        yield "  ".join([*left, *right]).rstrip()


def figure(name: str, value: str, remark: str = "", *, name_width: int = 24, value_width: int = 18) -> str:
    """A line of a list of figures: name, value to the right, remark; the widths are in characters."""
    return f"{name:<{name_width}}{value:>{value_width}}  {remark}".rstrip()


def megabytes(count: int) -> str:
    """So many bytes in MB of 10^6."""
    return f"{count / 1e6:,.0f} MB"
