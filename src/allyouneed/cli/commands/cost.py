"""`allyouneed cost`: the cost of a run, by count and by the paper's formula."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.cli.shared_options import Positive
from allyouneed.explorer.text_tables import figure

if TYPE_CHECKING:
    from allyouneed.cost.ledger import Ledger


def cost(
    run: Path,
    /,
    *,
    price_per_hour: Positive | None = None,
    tflops: Positive | None = None,
    json_: bool = False,
) -> None:
    """Show the cost of a run: time, FLOPs (counted and by the paper's formula), energy, price.

    ```
    allyouneed cost runs/first
    allyouneed cost runs/first --price-per-hour 2.50 --tflops 400
    ```

    The paper estimates training FLOPs as time x devices x sustained speed of a device (6.1), an upper bound;
    the count covers matrix products, with micro-batches padded to their longest sentence. On GPUs, where
    training packs sentences without padding, that is slightly more than was computed.

    Args:
        run: A run directory.
        price_per_hour: Price of one device per hour.
        tflops: Sustained speed of a device, in 10^12 FLOPs per second; by default the table's value.
        json_: Print one JSON object.
    """
    from allyouneed.cost.ledger import read_ledger

    ledger = read_ledger(run, price_per_hour=price_per_hour, tflops=tflops)
    print(json.dumps(ledger.as_json()) if json_ else "\n".join(_as_text(ledger)))


_figure = partial(figure, value_width=14)


def _as_text(ledger: "Ledger") -> Iterator[str]:
    yield _figure("updates", f"{ledger.step:,}")
    yield _figure("time", f"{ledger.seconds / 3600:,.2f} hours", f"{ledger.devices} x {ledger.device_name}")
    yield _figure("FLOPs, counted", f"{ledger.matmul_flops:.2e}", "of matrix products, 2 a multiply-add")
    formula = f"time x devices x {ledger.device_tflops:g} TFLOPS ({ledger.tflops_source})"
    yield _figure("FLOPs, by the formula", f"{ledger.formula_flops:.2e}", formula)
    share = f"{ledger.matmul_flops / ledger.formula_flops:.0%}" if ledger.formula_flops else "-"
    yield _figure("counted of formula", share)
    if ledger.energy_joules is None:
        yield _figure("energy", "-", "not measured on this system, or not with several processes")
    else:
        yield _figure("energy", f"{ledger.energy_joules / 3.6e6:,.3f} kWh", "of the processors and the GPU")
    if ledger.price is not None:
        yield _figure("price", f"{ledger.price:,.2f}")
