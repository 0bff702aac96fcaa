import pytest

from allyouneed.native import isa
from allyouneed.native.library import library


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in ("test_kernels", "test_linear"):
        metafunc.parametrize("instructions", [found.name for found in isa.supported()], indirect=True)


@pytest.fixture(autouse=True)
def needs_the_library() -> None:
    if library() is None:
        pytest.skip("NOT RUN: needs a C compiler")
