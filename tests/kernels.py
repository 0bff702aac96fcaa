"""The C kernels, for the tests that need them."""

import pytest

from allyouneed.native.compiler import COMPILERS, find
from allyouneed.native.library import found


def require_kernels() -> None:
    """Skip the test where no C compiler is installed; fail it where there are no kernels all the same."""
    library, origin = found()
    if library is None:
        if not any(map(find, COMPILERS)):
            pytest.skip("NOT RUN: needs a C compiler")
        pytest.fail(f"there are no kernels: {origin}")
