import pytest
from tests.kernels import require_kernels

from allyouneed.native import isa


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in ("test_kernels", "test_linear"):
        metafunc.parametrize("instructions", [found.name for found in isa.supported()], indirect=True)


@pytest.fixture(autouse=True)
def needs_the_library() -> None:
    require_kernels()
