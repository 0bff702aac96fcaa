"""The kernels are those of the fastest instruction set of the processor, or of the one that is named."""

import platform

import pytest

from allyouneed.cli.program import main
from allyouneed.errors import UsageError
from allyouneed.native import isa
from allyouneed.native.header import functions, structures

AVX2 = {"avx2", "fma"}
AMX = {"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", set(), ["plain"]),
        ("x86_64", AVX2, ["avx2", "plain"]),
        ("x86_64", AVX2 | {"avx_vnni"}, ["avx_vnni", "avx2", "plain"]),
        ("x86_64", AVX512, ["avx512", "avx2", "plain"]),
        ("x86_64", AVX512 | {"avx512_vnni"}, ["avx512_vnni", "avx512", "avx2", "plain"]),
        (
            "x86_64",
            AVX512 | AMX,
            ["amx", "avx512_bf16", "avx512_vnni", "avx512", "avx2", "plain"],
        ),
        ("aarch64", {"asimd"}, ["neon", "plain"]),
        ("arm64", {"asimd", "asimddp"}, ["neon_dotprod", "neon", "plain"]),
        ("riscv64", set(), ["plain"]),
    ],
)
def test_the_fastest_comes_first(
    machine: str, features: set[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(isa, "features", lambda: frozenset(features))
    assert [found.name for found in isa.supported()] == expected
    assert isa.find(None).name == expected[0]
    assert isa.find("plain").name == "plain"


@pytest.mark.parametrize(
    ("name", "reason"), [("avx512", "this processor or its system does not have it"), ("sse9", "unknown")]
)
def test_what_the_processor_does_not_have_is_refused(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(isa, "features", lambda: frozenset(AVX2))
    with pytest.raises(UsageError, match=f"ALLYOUNEED_ISA={name}: {reason}; use one of avx2, plain"):
        isa.find(name)


def test_doctor_says_which_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 0
    assert f"kernels {isa.supported()[0].name} (the fastest that it has)" in capsys.readouterr().out
    monkeypatch.setenv(isa.VARIABLE, "plain")
    assert main(["doctor"]) == 0
    assert "kernels plain (set by ALLYOUNEED_ISA)" in capsys.readouterr().out


def test_the_header_is_read_as_a_compiler_reads_it() -> None:
    assert [name for name, _ in structures()["stack"]._fields_] == [  # type: ignore[misc]
        *("num_layers", "d_model", "threads", "pre_norm", "activation", "zero_token"),
        *("alias", "original", "in_bfloat16", "embedding_scale"),
        *("embeddings", "layers", "norm", "heads", "cross_heads"),
    ]
    assert {name: len(arguments) for name, arguments in functions().items()} == {
        "layout_of": 2,
        "linear_forward": 4,
        "row_words": 1,
        "store_keys_values": 5,
        "attend": 8,
        "add_norm": 7,
        "turn_pairs": 6,
        "drop": 6,
        "add_norm_forward": 11,
        "add_norm_backward": 13,
        "activate": 4,
        "recur": 5,
        "stack_forward": 5,
        "normalisers_of": 4,
        "softmax_rows": 6,
        "attention_softmax": 4,
        "attention_forward": 9,
        "attention_backward": 12,
        "attention_softmax_backward": 8,
        "accumulate": 4,
        "scaled_difference": 8,
        "top_log_probs": 12,
        "read_tokens": 5,
        "reorder_hypotheses": 2,
        "advance_beams": 6,
        "search_steps": 10,
    }
