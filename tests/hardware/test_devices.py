"""A precision is refused where the device lacks it, and holds inside its block alone."""

import pytest
import torch

from allyouneed.config.run import Precision
from allyouneed.errors import UsageError
from allyouneed.hardware.devices import is_nvidia_since_ampere, products_in, resolve_precision

CPU = torch.device("cpu")


def test_tf32_is_refused_where_the_device_lacks_it() -> None:
    with pytest.raises(UsageError) as refused:
        resolve_precision("tf32", CPU)
    assert refused.value.messages[0] == (
        "training.precision = tf32: cpu has no such products, NVIDIA GPUs since Ampere (2020) do; "
        "take float32 or bfloat16"
    )
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("capability", "hip", "expected"),
    [((7, 5), None, False), ((8, 0), None, True), ((9, 0), None, True), ((9, 4), "6.0", False)],
)
def test_nvidia_gpus_since_ampere_are_known_by_their_capability(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], hip: str | None, expected: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert is_nvidia_since_ampere(torch.device("cuda")) is expected
    assert not is_nvidia_since_ampere(CPU)


@pytest.mark.parametrize(
    ("precision", "inside"), [("tf32", "high"), ("float32", "highest"), ("bfloat16", "highest")]
)
def test_products_in_float32_are_rounded_only_where_tf32_is_named(precision: Precision, inside: str) -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    found = []

    def multiply() -> None:
        with products_in(precision):
            found.append(torch.get_float32_matmul_precision())
            raise KeyError

    with pytest.raises(KeyError):
        multiply()
    assert found == [inside]
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.gpu
def test_tf32_rounds_products_on_a_gpu() -> None:
    device = torch.device("cuda")
    left, right = (torch.randn(256, 256, device=device) for _ in range(2))
    exact = left.double() @ right.double()
    errors = []
    for precision in ("float32", "tf32"):
        with products_in(precision):
            errors.append(float((left @ right - exact).norm() / exact.norm()))
    assert errors[0] < 1e-6 < errors[1] < 1e-3
