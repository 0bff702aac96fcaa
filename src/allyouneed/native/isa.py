"""The instruction sets that the kernels are compiled for."""

import platform
from dataclasses import dataclass

from allyouneed.errors import UsageError
from allyouneed.hardware.processor import features

VARIABLE = "ALLYOUNEED_ISA"
"""Environment variable that names the instruction set to use."""

_X86, _ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")


@dataclass(frozen=True)
class InstructionSet:
    """Instructions that a group of processors has."""

    name: str
    machines: tuple[str, ...] = ()
    """Architectures that have it, as `platform.machine()` names them; all if empty."""
    features: frozenset[str] = frozenset()
    """Features that a processor needs, as Linux names them."""
    options: tuple[str, ...] = ()
    """Options of the compiler."""


def _x86(name: str, features: str, options: str) -> InstructionSet:
    return InstructionSet(name, _X86, frozenset(features.split()), tuple(options.split()))


_AVX2, _AVX2_OPTIONS = "avx2 fma", "-mavx2 -mfma"
_AVX512 = "avx512f avx512bw avx512dq avx512vl"
_AVX512_OPTIONS = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma"

ISAS = (
    _x86(
        "amx",
        f"{_AVX512} avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16",
        f"{_AVX512_OPTIONS} -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16",
    ),
    _x86(
        "avx512_bf16",
        f"{_AVX512} avx512_vnni avx512_bf16",
        f"{_AVX512_OPTIONS} -mavx512vnni -mavx512bf16",
    ),
    _x86("avx512_vnni", f"{_AVX512} avx512_vnni", f"{_AVX512_OPTIONS} -mavx512vnni"),
    _x86("avx512", _AVX512, _AVX512_OPTIONS),
    _x86("avx_vnni", f"{_AVX2} avx_vnni", f"{_AVX2_OPTIONS} -mavxvnni"),
    _x86("avx2", _AVX2, _AVX2_OPTIONS),
    InstructionSet("neon_dotprod", _ARM, frozenset({"asimddp"}), ("-march=armv8.2-a+dotprod",)),
    InstructionSet("neon", _ARM),
    InstructionSet("plain"),
)
"""All instruction sets, the fastest first; every processor has the last one."""


def supported() -> list[InstructionSet]:
    """The instruction sets that this processor has, the fastest first."""
    machine, found = platform.machine(), features()
    return [isa for isa in ISAS if (not isa.machines or machine in isa.machines) and isa.features <= found]


def find(name: str | None) -> InstructionSet:
    """The instruction set of a name, by default the fastest that this processor has.

    Raises:
        UsageError: There is no instruction set of that name, or this processor does not have it.
    """
    available = supported()
    if not name:
        return available[0]
    found = next((isa for isa in available if isa.name == name), None)
    if found is None:
        reason = (
            "this processor or its system does not have it"
            if name in {isa.name for isa in ISAS}
            else "unknown"
        )
        names = ", ".join(isa.name for isa in available)
        raise UsageError(f"{VARIABLE}={name}: {reason}; use one of {names}, or unset it")
    return found
