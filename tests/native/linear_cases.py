"""Cases of `linear.c`."""

import math

from tests.native.cases import Address, Case
from tests.native.driver import Layouts
from tests.native.references import SHAPES, product, random
from torch import Tensor

from allyouneed.native.library import FORMS
from allyouneed.native.linear import pack

NUM_ROWS = 19


def linear_cases(layouts: Layouts) -> list[Case]:
    return [
        linear_case(layouts, shape, form, relu=relu)
        for form in FORMS
        for shape in SHAPES
        for relu in (False, True)
    ]


def linear_case(layouts: Layouts, shape: tuple[int, int], form: str, *, relu: bool) -> Case:
    """All rows in one call against the product, and each row alone against the same bits."""
    num_outputs, num_inputs = shape
    case = Case(f"linear {form} {num_outputs}x{num_inputs}{' relu' * relu}")
    x, weight, bias = random(NUM_ROWS, num_inputs), random(*shape, seed=2), random(num_outputs)
    linear = linear_structure(case, layouts, form, weight, bias, relu=relu)
    inputs, together, alone = case.tensor(x), *(case.room(NUM_ROWS * num_outputs) for _ in range(2))
    case.call("linear_forward", linear, inputs, NUM_ROWS, together)
    for row in range(NUM_ROWS):
        case.call("linear_forward", linear, inputs + 4 * row * num_inputs, 1, alone + 4 * row * num_outputs)
    expected, bound = product(x, weight, bias, form)
    case.expect(together, expected.relu() if relu else expected, bound)
    case.expect_same_bits(together, alone)
    return case


def linear_structure(
    case: Case, layouts: Layouts, form: str, weight: Tensor, bias: Tensor, *, relu: bool = False
) -> Address:
    packed = pack(weight, bias, form, layouts[form])
    tensors = {name: case.tensor(tensor) for name, tensor in packed._asdict().items()}
    return case.structure(
        "linear",
        num_inputs=weight.size(1),
        num_outputs=weight.size(0),
        form=FORMS.index(form),
        num_threads=1,
        lower_bound=0.0 if relu else -math.inf,
        **tensors,
    )
