"""``perfmodel trace``: what a profiler's trace says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.options import models_option, output_options
from perfmodel.cli.output import (
    duration,
    percent,
    print_facts,
    print_json,
    print_table,
    printable,
    with_unit,
)

if TYPE_CHECKING:
    from perfmodel.estimator.single.compared_operators import ComparedOperator
    from perfmodel.traces.analysis.explanation import TraceExplanation
    from perfmodel.traces.analysis.operator_work import PricedOperator
    from perfmodel.traces.analysis.timeline import DeviceTime


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--top", type=click.IntRange(1, 10_000), default=20, help="Operators at most.")
@click.option("--step", type=int, help="Look at one step alone, counted from 0.")
@click.option("--device", type=int, help="Look at one device alone, as the trace counts them.")
@click.option("--member", metavar="NAME", help="Of an archive of several traces: which one.")
@click.option("--accelerator", metavar="NAME", help="What ran, where the trace does not say.")
@click.option("--no-predict", is_flag=True, help="Ask no model what it would have predicted.")
@models_option
@output_options
def command(
    file: Path,
    top: int,
    step: int | None,
    device: int | None,
    member: str | None,
    accelerator: str | None,
    no_predict: bool,
    models: Path,
    as_json: bool,
) -> None:
    """Say what a profiler's trace says.

    Device, software, steps and where their time went; operators with the work they did, beside
    the roofline of the device and beside what perfmodel would have predicted for each:

        perfmodel trace trace.json.gz --top 10

    The format is recognised by content: torch.profiler (Kineto), and those of docs/traces.md.
    """
    from perfmodel.devices.catalog import Catalog
    from perfmodel.estimator.single.compared_operators import compared_operators
    from perfmodel.traces.analysis.explanation import explain_trace
    from perfmodel.traces.formats.registry import read_trace

    spec = Catalog.default().get(accelerator) if accelerator else None
    found = explain_trace(
        read_trace(file, member=member),
        accelerator=spec,
        step=step,
        devices=None if device is None else (device,),
    )
    compared = compared_operators(found, None if no_predict else models)
    if as_json:
        print_json(_form(found, compared, top))
        return
    _print_facts(file, found)
    _print_times(found)
    _print_classes(found)
    _print_operators(found, compared[:top])
    for note in found.notes:
        click.echo(f"Note: {printable(note)}")


def _print_facts(file: Path, found: TraceExplanation) -> None:
    trace, device = found.trace, found.device
    software = ", ".join(f"{name} {version}" for name, version in trace.software.items())
    facts = [("trace", f"{file.name} ({trace.format})")]
    if device is not None:
        known = f" = {device.accelerator}" if device.accelerator else ""
        guessed = " (guessed)" if device.guessed else ""
        facts.append(
            ("device", f"{len(trace.devices)} x {device.name or '(unnamed)'}{known}{guessed}")
        )
    if software:
        facts.append(("software", software))
    if trace.rank is not None:
        facts.append(("rank", f"{trace.rank} of {trace.world_size or '?'}"))
    steps = found.steps
    if steps.windows:
        facts.append(("steps", f"{len(steps.windows)} ({steps.found})"))
        facts.append(("step time", f"{duration(steps.step_time_s)} (median)"))
    if len(trace.kernels):
        facts.append(("joined", f"{percent(found.joined_share)} of device time"))
    print_facts(facts)


def _print_times(found: TraceExplanation) -> None:
    if not found.times:
        return
    rows = [
        [
            str(one.device),
            duration(one.window_s / found.step_count),
            *(
                percent(part / one.window_s if one.window_s else None)
                for part in (
                    one.computing_s, one.exposed_s, one.communicating_s, one.moving_s,
                    one.idle_s, one.launch_bound_s,
                )
            ),
        ]
        for one in found.times
    ]  # fmt: skip
    headings = ["device", "per step", "computes", "exposed comm.", "all comm.", "moves", "idle",
                "of it waiting for launches"]  # fmt: skip
    print()
    print_table(headings, rows, title="Where the time of the device went", right="rrrrrrrr")


def _print_classes(found: TraceExplanation) -> None:
    total_s = found.device_time_s
    by_class: dict[str, list[PricedOperator]] = {}
    for one in found.operators:
        by_class.setdefault(one.operator.op_class, []).append(one)
    rows = [
        [
            name,
            str(sum(one.operator.kernels for one in members) // found.step_count),
            duration(_time_s(members) / found.step_count),
            percent(_time_s(members) / total_s if total_s else None),
        ]
        for name, members in sorted(by_class.items(), key=lambda item: -_time_s(item[1]))
    ]
    print()
    print_table(["class", "kernels", "per step", "share"], rows, title="Classes", right="lrrr")


def _time_s(members: Sequence[PricedOperator]) -> float:
    return sum(one.operator.time_s for one in members)


def _print_operators(found: TraceExplanation, compared: Sequence[ComparedOperator]) -> None:
    total_s = found.device_time_s
    print()
    print_table(
        ["operator", "phase", "reads", "calls", "per call", "alone", "share", "FLOP/s", "B/s",
         "roofline", "predicted"],
        [_row(one, found.step_count, total_s) for one in compared],
        title="Operators; calls are those of a step",
        right="lllrrrrrrrr",
    )  # fmt: skip


def _row(compared: ComparedOperator, steps: int, total_s: float) -> list[str]:
    one = compared.priced
    operator = one.operator
    calls = operator.calls / steps
    prediction: Any = compared.prediction
    return [
        operator.name[:60],
        operator.phase.value,
        _shapes(one),
        f"{calls:.0f}" if calls >= 1 else f"{calls:.2g}",
        duration(operator.time_per_call_s),
        duration(operator.alone_s),
        percent(operator.time_s / total_s if total_s else None),
        with_unit(one.flops_per_s, "FLOP/s"),
        with_unit(one.bytes_per_s, "B/s"),
        percent(one.roofline_share),
        "-" if prediction is None else duration(prediction.time_s),
    ]


def _shapes(one: PricedOperator) -> str:
    arguments = one.operator.arguments
    tensors = arguments.tensors if arguments is not None else ()
    shown = " ".join("x".join(map(str, tensor.shape)) for tensor in tensors[:3] if tensor.shape)
    return f"{shown} {one.told_precision or ''}".strip() or "-"


def _form(
    found: TraceExplanation, compared: Sequence[ComparedOperator], top: int
) -> dict[str, Any]:
    """Return what is found as plain JSON values, of at most ``top`` operators."""
    trace, device, steps = found.trace, found.device, found.steps
    return {
        "format": trace.format,
        "complete": trace.complete,
        "device": None
        if device is None
        else {
            "name": device.name,
            "accelerator": device.accelerator,
            "guessed": device.guessed,
            "count": len(trace.devices),
        },
        "accelerator": None if found.accelerator is None else found.accelerator.name,
        "software": dict(trace.software),
        "rank": trace.rank,
        "world_size": trace.world_size,
        "steps": {
            "count": len(steps.windows),
            "found": steps.found,
            "step_time_s": steps.step_time_s if steps.windows else None,
            "times_s": [one.duration_s for one in steps.windows],
        },
        "explained_steps": found.step_count,
        "device_times": [_device_time_form(one) for one in found.times],
        "device_time_s": found.device_time_s,
        "trace_device_time_s": found.trace_device_time_s,
        "joined_share": found.joined_share,
        "operators": [_operator_form(one) for one in compared[:top]],
        "operator_count": len(compared),
        "notes": list(found.notes),
    }


def _device_time_form(one: DeviceTime) -> dict[str, Any]:
    return {
        "device": one.device,
        "window_s": one.window_s,
        "computing_s": one.computing_s,
        "communicating_s": one.communicating_s,
        "exposed_communication_s": one.exposed_s,
        "moving_s": one.moving_s,
        "idle_s": one.idle_s,
        "launch_bound_s": one.launch_bound_s,
    }


def _operator_form(compared: ComparedOperator) -> dict[str, Any]:
    one, prediction = compared.priced, compared.prediction
    operator = one.operator
    tensors = () if operator.arguments is None else operator.arguments.tensors
    return {
        "name": operator.name,
        "class": operator.op_class,
        "phase": operator.phase.value,
        "forward": operator.forward or None,
        "inputs": [{"shape": list(t.shape), "dtype": t.dtype or None} for t in tensors],
        "precision": one.told_precision,
        "calls": operator.calls,
        "kernels": operator.kernels,
        "time_s": operator.time_s,
        "time_per_call_s": operator.time_per_call_s,
        "alone_s": operator.alone_s,
        "joined": operator.joined,
        "kernel_names": list(operator.kernel_names),
        "flops": one.flops,
        "bytes": one.size_bytes,
        "flops_per_s": one.flops_per_s,
        "bytes_per_s": one.bytes_per_s,
        "roofline_s": one.roofline_s,
        "roofline_share": one.roofline_share,
        "unpriced_because": one.reason or None,
        "predicted_s": None if prediction is None else prediction.time_s,
        "predicted_low_s": None if prediction is None else prediction.low_s,
        "predicted_high_s": None if prediction is None else prediction.high_s,
    }
