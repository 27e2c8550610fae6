"""``perfmodel capture``: a model becomes a graph, without running it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.captured_settings import job_of_graph, noted, settings_of
from perfmodel.cli.asking.prepare import capture_file, refuse_file_options, subject_of
from perfmodel.cli.options import FILE, file_options, job_options, output_options
from perfmodel.cli.output import count, memory, print_facts, print_json, print_table, with_unit
from perfmodel.cli.subjects import describe_job, job_of
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job


@click.command()
@click.argument("subject", metavar="MODEL", required=False)
@click.option("--output", "-o", type=FILE, help="Write the graph here as canonical JSON.")
@job_options
@file_options
@output_options
def command(subject: str | None, output: Path | None, as_json: bool, **settings: Any) -> None:
    """Turn a model into a graph without running it and print its totals.

    MODEL is timm/<name>, zoo/<name>, an open model by the name of its hub (gpt2), a transformers
    config (.json), an ONNX file (.onnx), what a Python file calls by a name (train.py:model), or a
    graph that this command wrote (.json). Nothing is downloaded and no weights are needed.
    """
    job, graph = _capture(subject, settings)
    totals = _totals(graph)
    if output is not None:
        from perfmodel.graph.canonical import to_json

        output.write_bytes(to_json(graph))
        totals["output"] = str(output)
    if as_json:
        print_json(totals)
    else:
        _print(job, totals)


def _capture(subject: str | None, settings: dict[str, Any]) -> tuple[Job, Graph]:
    read = subject_of(subject, settings)
    if read.request is not None:
        raise InvalidInputError(f"{subject} is a request; capture takes a model.")
    if read.onnx is not None or read.python is not None:
        graph = capture_file(read, settings)
        return job_of({"graph": graph.content_hash, **settings_of(graph)}, settings), graph
    refuse_file_options(settings)
    if read.graph is not None:
        return job_of_graph(read.graph, settings), read.graph
    from perfmodel.estimator.jobs.capture import capture_in_process

    job = job_of(read.reference, settings)
    step = capture_in_process(replace(job, accumulation_steps=1))
    return job, noted(step.graph, job, step.tokens_per_sample)


def _totals(graph: Graph) -> dict[str, Any]:
    """Return the totals of a graph as plain JSON values."""
    from perfmodel.graph.cost import cost_table
    from perfmodel.placement.memory.memory import peak_tensor_bytes
    from perfmodel.types import Phase, Role

    table = cost_table(graph)
    phases = {}
    for phase in Phase:
        rows = [i for i, node in enumerate(graph.nodes) if node.phase is phase]
        if rows:
            phases[phase.value] = {
                "nodes": len(rows),
                "flops": float(table.flops[rows].sum()),
                "bytes_read": float(table.bytes_read[rows].sum()),
                "bytes_written": float(table.bytes_written[rows].sum()),
            }
    return {
        "hash": graph.content_hash,
        "source": dict(graph.source),
        "nodes": len(graph.nodes),
        "tensors": len(graph.tensors),
        "parameters": graph.parameter_count,
        "phases": phases,
        "peak_tensor_bytes": peak_tensor_bytes(graph),
        "bytes_by_role": {role.value: graph.storage_bytes(role) for role in Role},
        "unpriced_operators": dict(sorted(table.unpriced.items())),
    }


def _print(job: Job, totals: dict[str, Any]) -> None:
    by_role = totals["bytes_by_role"]
    held = ", ".join(
        f"{role.replace('_', ' ')} {memory(size)}"
        for role, size in by_role.items()
        if size and role not in ("activation", "constant")
    )
    unpriced = totals["unpriced_operators"]
    facts = [
        ("model", f"{totals['source'].get('model', job.label)}: {describe_job(job)}"),
        ("graph", f"{totals['hash']}, {totals['nodes']} operators, {totals['tensors']} tensors"),
        ("parameters", count(totals["parameters"])),
        ("peak memory", f"{memory(totals['peak_tensor_bytes'])} of tensors; held: {held}"),
        ("unpriced", ", ".join(f"{op} x{n}" for op, n in unpriced.items()) or "none"),
    ]
    if "output" in totals:
        facts.append(("written to", totals["output"]))
    print_facts(facts)
    rows = [
        [phase, str(part["nodes"]), with_unit(part["flops"], "FLOP")]
        + [with_unit(part["bytes_read"], "B"), with_unit(part["bytes_written"], "B")]
        for phase, part in totals["phases"].items()
    ]
    print_table(["phase", "operators", "work", "read", "written"], rows, right="lrrrr")
