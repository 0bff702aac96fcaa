"""Cases of `linear.c`."""

import math

from tests.native.cases import Address, Case
from tests.native.driver import Layouts
from tests.native.references import SHAPES, largest_values, product, random
from tests.native.with_tensors import packed
from torch import Tensor

from allyouneed.native.library import FORMS

NUM_ROWS = 19


def linear_cases(layouts: Layouts) -> list[Case]:
    shaped = [
        linear_case(layouts, random(NUM_ROWS, shape[1]), random(*shape, seed=2), form, relu=relu)
        for form in FORMS
        for shape in SHAPES
        for relu in (False, True)
    ]
    return shaped + [linear_case(layouts, *largest_values(), form, relu=False) for form in FORMS]


def linear_case(layouts: Layouts, x: Tensor, weight: Tensor, form: str, *, relu: bool) -> Case:
    """All rows in one call against the product, and each row alone against the same bits."""
    num_rows, (num_outputs, num_inputs) = len(x), weight.shape
    case = Case(f"linear {form} {num_outputs}x{num_inputs}{' relu' * relu}")
    bias = random(num_outputs)
    linear = linear_structure(case, layouts, form, weight, bias, relu=relu)
    inputs, together, alone = case.tensor(x), *(case.room(num_rows * num_outputs) for _ in range(2))
    case.call("linear_forward", linear, inputs, num_rows, together)
    for row in range(num_rows):
        case.call("linear_forward", linear, inputs + 4 * row * num_inputs, 1, alone + 4 * row * num_outputs)
    expected, bound = product(x, weight, bias, form, bool(layouts[form].pairs))
    case.expect(together, expected.relu() if relu else expected, bound)
    case.expect_same_bits(together, alone)
    return case


def linear_structure(
    case: Case, layouts: Layouts, form: str, weight: Tensor, bias: Tensor, *, relu: bool = False
) -> Address:
    panels = packed(weight, bias, form, layouts[form])
    tensors = {name: case.tensor(tensor) for name, tensor in panels.items()}
    return case.structure(
        "linear",
        num_inputs=weight.size(1),
        num_outputs=weight.size(0),
        form=FORMS.index(form),
        num_threads=1,
        lower_bound=0.0 if relu else -math.inf,
        **tensors,
    )
