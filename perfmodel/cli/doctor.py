"""``perfmodel doctor``: what this machine has and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import output_options
from perfmodel.cli.output import memory, print_facts, print_json, with_unit

if TYPE_CHECKING:
    from perfmodel.devices.detect import MachineReport


@click.command()
@click.option("--measure", is_flag=True, help="Measure the CPU now if it never was (seconds).")
@output_options
def command(measure: bool, as_json: bool) -> None:
    """Say what this machine has, what can be profiled on it, and which extras are missing."""
    from perfmodel.devices.detect import describe_machine

    found = describe_machine(measure=measure)
    if as_json:
        print_json(found.to_dict())
        return
    print_facts([*_machine(found), *_abilities(found), *_extras(found)])
    for problem in found.problems:
        print(f"Problem: {problem}")


def _machine(found: MachineReport) -> list[tuple[str, str]]:
    cpu = found.cpu
    caches = ", ".join(f"L{level} {memory(size)}" for level, size in cpu.cache_bytes_by_level)
    facts = [
        ("Python", f"{found.python} on {found.platform}"),
        ("CPU", f"{cpu.model}, {cpu.core_count} cores, {memory(cpu.memory_bytes)}; {caches}"),
        ("", f"known as {cpu.name!r}, 'local' or 'cpu'"),
        ("", _measured(found)),
    ]
    for gpu in found.gpus:
        known = f"known as {gpu.accelerator!r}" if gpu.accelerator else "not in the catalogue"
        slices = ", partitioned (MIG)" if gpu.partitioned else ""
        facts.append(("GPU", f"{gpu.name}, {memory(gpu.memory_bytes)}{slices}; {known}"))
    return facts if found.gpus else [*facts, ("GPU", "none found")]


def _measured(found: MachineReport) -> str:
    if found.local is None:
        return "not measured yet: `perfmodel doctor --measure` takes some seconds"
    rates = ", ".join(
        f"{name} {with_unit(rate, 'FLOP/s')}" for name, rate in found.local.peak_flops.items()
    )
    bandwidth = with_unit(found.local.bandwidth_bytes_per_s, "B/s")
    return f"measured: {rates}; memory {bandwidth}"


def _abilities(found: MachineReport) -> list[tuple[str, str]]:
    return [
        (
            "Can profile" if ability.possible else "Cannot profile",
            f"{ability.what}: {ability.reason}",
        )
        for ability in found.abilities
    ]


def _extras(found: MachineReport) -> list[tuple[str, str]]:
    facts = []
    for extra in found.extras:
        if extra.complete:
            state = "complete"
        else:
            state = f"missing {', '.join(extra.missing)}; get it with {extra.install_command}"
        facts.append((f"Extra {extra.name}", f"{extra.purpose}: {state}"))
    return facts
