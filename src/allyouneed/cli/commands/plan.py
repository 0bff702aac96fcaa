"""`allyouneed plan`: the cost of a run, before training."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from allyouneed.cli.shared_options import AtLeastOne, ConfigurationOptions, Positive, between
from allyouneed.errors import UsageError
from allyouneed.explorer.text_tables import figure, megabytes
from allyouneed.symbols import MAX_ENTRIES

if TYPE_CHECKING:
    from allyouneed.config.run import RunConfig
    from allyouneed.cost.estimate import Cost, PublishedModel

_TABLE3_TITLES = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls", "steps")
_TITLES = (*_TABLE3_TITLES, "vocab", "params", "paper", "FLOPs")


def plan(
    *,
    configuration: ConfigurationOptions = ConfigurationOptions(),
    vocab_size: Annotated[int, between(1, MAX_ENTRIES)] | None = None,
    length: AtLeastOne = 25,
    tflops: Positive | None = None,
    all_: bool = False,
    json_: bool = False,
) -> None:
    """Show parameters, FLOPs, memory and time of a run, before training.

    ```
    allyouneed plan --preset big --tflops 300
    allyouneed plan --preset base --fidelity released-2017
    allyouneed plan --config mine.toml --set model.num_layers=4 --json
    allyouneed plan --all --vocab-size 40960
    ```

    Args:
        configuration: The configuration to train.
        vocab_size: Entries of each vocabulary, up to 1,000,000; by default the configuration's.
        length: Tokens per sentence, source and target alike; FLOPs and memory of attention depend on it.
        tflops: Sustained speed of your hardware, in 10^12 FLOPs per second; shows the training time.
        all_: Show all presets, one per row, in the columns of the paper's Table 3.
        json_: Print one JSON object; with `--all`, preset -> object.
    """
    from allyouneed.config.presets import PRESETS, base
    from allyouneed.cost.estimate import cost

    entries = [f"model.{side}_vocab_size={vocab_size}" for side in ("source", "target") if vocab_size]
    if all_:
        if configuration != ConfigurationOptions():
            raise UsageError(
                "--all shows every preset as it is; leave out --preset, --fidelity, --config and --set"
            )
        configs = {name: build().with_settings(entries) for name, build in PRESETS.items()}
        costs = {name: cost(config, length) for name, config in configs.items()}
        objects = {name: _as_json(found, length, tflops) for name, found in costs.items()}
        print(json.dumps(objects) if json_ else _as_table(configs, costs))
    else:
        config = configuration.resolve(base()).with_settings(entries)
        found = cost(config, length)
        printed = _as_text(config, found, length, tflops)
        print(json.dumps(_as_json(found, length, tflops)) if json_ else "\n".join(printed))


def _as_json(found: "Cost", length: int, tflops: float | None) -> dict[str, Any]:
    paper = found.published
    return {
        "parameters": found.parameters,
        "parameters_by_part": found.parameters_by_part,
        "length_tokens": length,
        "flops_per_target_token": found.flops_per_target_token,
        "training_flops": found.training_flops,
        "training_seconds": tflops and found.training_flops / (tflops * 1e12),
        "micro_batch_tokens": found.micro_batch_tokens,
        "memory_bytes": asdict(found.memory) | {"peak_estimate": found.memory.peak_estimate},
        "checkpoint_bytes": found.checkpoint_bytes,
        "state_bytes": found.state_bytes,
        "deviations": [asdict(deviation) for deviation in found.deviations],
        "paper": paper and {**asdict(paper), "training_flops": paper.training_flops},
    }


def _as_text(config: "RunConfig", found: "Cost", length: int, tflops: float | None) -> Iterator[str]:
    from allyouneed.cost.estimate import NUM_P100, P100_TFLOPS
    from allyouneed.interop.export_limits import exports_line

    model, training, memory = config.model, config.training, found.memory
    yield figure("parameters", f"{found.parameters:,}")
    for part, count in found.parameters_by_part.items():
        yield figure(f"  {part}", f"{count:,}")
    if found.published:
        yield from _published_parameters(found.parameters, model.target_vocab_size, found.published)
    yield ""
    yield f"FLOPs of matrix products, forward and backward, 2 a multiply-add, on sentences of {length} tokens"
    yield figure("  a target token", f"{found.flops_per_target_token:,}")
    run = f"{found.tokens_per_update:,} tokens x {training.num_steps:,} updates"
    yield figure("  the run", f"{found.training_flops:.2e}", run)
    if (paper := found.published) and paper.training_flops:  # an upper bound on what its GPUs computed
        formula = f"{paper.training_hours:g} hours x {NUM_P100} P100 x {P100_TFLOPS} TFLOPS"
        yield figure("  the paper's estimate", f"{paper.training_flops:.2e}", f"{formula} (Table 2)")
        yield f"  The count is {found.training_flops / paper.training_flops:.0%} of the paper's estimate."
    if tflops is None:
        yield figure("time", "-", "--tflops N shows it for hardware that sustains N TFLOPS")
    else:
        hours = found.training_flops / (tflops * 1e12) / 3600
        yield figure("time", f"{hours:,.1f} hours", f"at {tflops:g} TFLOPS sustained")
    yield ""
    yield "memory of training in float32"
    yield figure("  weights", megabytes(memory.weights))
    yield figure("  gradients", megabytes(memory.gradients))
    yield figure("  optimizer's moments", megabytes(memory.moments))
    micro_batch = (
        f"an estimate, for {found.micro_batch_tokens:,} tokens a side: a micro-batch, on a CPU one per thread"
    )
    yield figure("  activations, about", megabytes(memory.activations_estimate), micro_batch)
    yield figure(
        "  the loss, about", megabytes(memory.loss_estimate), "logits in chunks, and their gradients"
    )
    yield figure("  at most, about", megabytes(memory.peak_estimate), "with one micro-batch at a time")
    yield "disk"
    yield figure("  a checkpoint", megabytes(found.checkpoint_bytes), f"{training.keep_checkpoints} are kept")
    yield figure("  a state to resume", megabytes(found.state_bytes), "2 are kept")
    yield ""
    yield f"can be exported to {exports_line(config)}"
    yield f"what departs from the paper's {found.nearest}"
    for deviation in found.deviations:
        of_paper = "-" if deviation.paper is None else deviation.paper
        remark = f"  ({deviation.remark})" if deviation.remark else ""
        yield f"  {deviation.setting} = {deviation.value}, there {of_paper}{remark}"


def _published_parameters(parameters: int, vocab_size: int, paper: "PublishedModel") -> Iterator[str]:
    """The paper's count of parameters (Table 3) and, if it differs, the reason."""
    from allyouneed.cost.estimate import VOCAB_SIZE_OF_2017

    yield f"  The paper prints {paper.parameters_millions} million (Table 3)."
    if round(parameters / 1e6) != paper.parameters_millions:
        entries = f"about {paper.vocab_size:,}"
        if paper.vocab_size == VOCAB_SIZE_OF_2017:
            entries = f"{paper.vocab_size:,} entries, fixed in its code"
        yield f"  That comes out with a vocabulary of {entries}; here it has {vocab_size:,}."
        yield f"  See --vocab-size {paper.vocab_size}."


def _as_table(configs: "dict[str, RunConfig]", costs: "dict[str, Cost]") -> str:
    """The columns of Table 3, then vocabulary, parameters here and in the paper, FLOPs, and the purpose."""
    from allyouneed.config.presets import purpose_of

    rows = {"preset": _TITLES, **{name: _cells(configs[name], costs[name]) for name in configs}}
    purposes = {"preset": "for", **{name: purpose_of(name) for name in configs}}
    lines = (f"{name:<25}" + "".join(f"{cell:>9}" for cell in row) for name, row in rows.items())
    return "\n".join(f"{line}  {purposes[name]}".rstrip() for name, line in zip(rows, lines, strict=True))


def _cells(config: "RunConfig", found: "Cost") -> list[str]:
    model, training = config.model, config.training
    return [
        *map(str, (model.num_layers, model.d_model, model.d_ff, model.num_heads, *model.head_widths)),
        *map(str, (model.dropout, training.label_smoothing, training.num_steps, model.target_vocab_size)),
        f"{found.parameters / 1e6:.1f}",
        str(found.published.parameters_millions) if found.published else "-",
        f"{found.training_flops:.1e}",
    ]
