import pytest

from allyouneed.native.library import library


@pytest.fixture(autouse=True)
def needs_the_library() -> None:
    if library() is None:
        pytest.skip("NOT RUN: needs a C compiler and a processor with AVX-512")
