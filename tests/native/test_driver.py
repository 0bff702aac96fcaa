"""The kernels of every instruction set pass the same cases, and the driver reports those that fail."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.native.attention_cases import attention_cases
from tests.native.cases import Address, Case, file_of
from tests.native.driver import Driver, Report, build_driver
from tests.native.gradient_cases import gradient_cases
from tests.native.linear_cases import linear_cases, linear_structure
from tests.native.residual_cases import residual_cases
from tests.native.row_cases import row_cases
from tests.native.search_cases import search_cases
from tests.native.softmax_cases import softmax_cases
from tests.native.stack_cases import stack_cases
from tests.native.stack_references import StackReference, stack_references
from tests.tiny import TinyModel

from allyouneed.native import isa


@pytest.fixture(scope="module")
def references(tiny_model: TinyModel) -> list[StackReference]:
    return stack_references(tiny_model)


@pytest.mark.parametrize("instructions", isa.ISAS, ids=lambda instructions: instructions.name)
def test_every_case_passes(
    instructions: isa.InstructionSet,
    tmp_path: Path,
    references: list[StackReference],
    record_property: Callable[[str, int], None],
) -> None:
    driver = build_driver(instructions, tmp_path)
    target = driver.target()
    cases = [*linear_cases(target.layouts), *attention_cases(target), *row_cases(), *residual_cases()]
    cases += [*softmax_cases(), *gradient_cases(), *search_cases(), *stack_cases(target, references)]
    report = driver.run(cases)
    assert not report.failures, "\n".join(report.failures)
    assert report.passed == [case.name for case in cases]
    record_property("cases", len(cases))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return build_driver(isa.find("plain"), tmp_path_factory.mktemp("plain"))


def normalisers(name: str, num_outputs: int = 2) -> tuple[Case, Address]:
    """A case whose output is 1 and 2.5: each row has one logit."""
    case = Case(name)
    out = case.room(num_outputs)
    case.call("normalisers_of", 2, 1, case.tensor(torch.tensor([1.0, 2.5])), out)
    return case, out


def test_an_output_that_is_not_the_expected_one_fails_its_case_only(plain: Driver) -> None:
    right, out = normalisers("right")
    right.expect(out, torch.tensor([1.0, 2.25]), bound=0.25)
    wrong, out = normalisers("wrong")
    wrong.expect(out, torch.tensor([1.0, 2.25]), bound=0.125)
    unequal, out = normalisers("unequal")
    unequal.expect_same_bits(out, unequal.tensor(torch.tensor([1.0, 2.0])))
    missing, _ = normalisers("missing")
    missing.expect(missing.tensor(torch.tensor([math.nan])), torch.tensor([1.0]))
    report = plain.run([wrong, right, unequal, missing])
    assert report.passed == ["right"]
    assert report.failures == [
        "wrong: output 0, element 1: found 2.5, expected 2.25 within 0.125; 1 of 2 are wrong",
        "unequal: pair 0: byte 6 of 8 differs",
        "missing: output 0, element 0: found nan, expected 1 within 0; 1 of 1 are wrong",
    ]


def test_nan_and_infinity_equal_only_themselves(plain: Driver) -> None:
    values = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    cases = []
    for i, found in enumerate(values):
        for j, expected in enumerate(values):
            case = Case(f"{i} {j}")
            case.expect(case.tensor(found), expected[None], bound=1e30)
            cases.append(case)
    assert plain.run(cases).passed == [f"{i} {i}" for i in range(4)]


def test_integers_and_bfloat16_are_compared_as_such(plain: Driver) -> None:
    case = Case("types")
    for values in (torch.tensor([-3, 2**40]), torch.tensor([-3, 5], dtype=torch.int32)):
        case.expect(case.tensor(values), values, dtype=values.dtype)
    halves = torch.tensor([-1.5, 3.0], dtype=torch.bfloat16)
    case.expect(case.tensor(halves), halves, dtype=torch.bfloat16)
    assert plain.run([case]) == Report(["types"], [], {})


def test_a_write_outside_of_memory_fails_the_case(plain: Driver) -> None:
    case, _ = normalisers("narrow", num_outputs=1)
    assert plain.run([case]).failures == ["narrow: memory after buffer 0 was written"]


def test_a_function_that_runs_out_of_memory_fails_the_case(plain: Driver) -> None:
    case = Case("large")
    layer = linear_structure(case, plain.target().layouts, "int8", torch.zeros(1, 1), torch.zeros(1))
    case.call("linear_forward", layer, None, 2**50, None)
    assert plain.run([case]).failures == ["large: linear_forward returned 0"]


def test_a_file_that_ends_too_early_is_refused(plain: Driver) -> None:
    file = plain.folder / "short"
    file.write_bytes(file_of([normalisers("short")[0]])[:-8])
    with pytest.raises(AssertionError, match="file of cases: ends too early"):
        plain.run_file(file)
