"""What all tests share: real data where there is some, one thread, no network, and checked tensor shapes."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tensors of tests are too small to share out
install_import_hook("allyouneed.model", "beartype.beartype")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("NOT RUN: needs a CUDA device")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real corpora (`multi30k/`, ...) that ALLYOUNEED_DATA names."""
    folder = os.environ.get("ALLYOUNEED_DATA")
    if not folder:
        pytest.skip("NOT RUN: needs real data; set ALLYOUNEED_DATA to the folder that holds it")
    return Path(folder)
