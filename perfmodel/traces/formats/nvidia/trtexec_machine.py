"""The device of a run of ``trtexec``, from metadata beside its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.unpacking import HEAD_BYTES, read_head
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.traced_devices import TracedDevice, traced_device

_MIB = re.compile(r"(\d{1,9}) MiB")


def describe(builder: TraceBuilder, beside: Mapping[str, Path], limits: TraceLimits) -> None:
    """Add device and versions that files beside a profile tell.

    Raises
    ------
    InvalidTraceError
        One of them is damaged.
    """
    machine = _load(beside.get(".metadata.json"), limits)
    run = _load(beside.get(".profile.metadata.json"), limits)
    build = _load(beside.get(".build.metadata.json"), limits)
    facts = machine[0] if isinstance(machine, list) and machine else {}
    told = run.get("device_information", {}) if isinstance(run, dict) else {}
    if isinstance(facts, dict) and isinstance(told, dict) and (facts or told):
        builder.devices.append(_device(facts, told))
    version = facts.get("CUDA_VERSION") if isinstance(facts, dict) else None
    if isinstance(version, list) and len(version) >= 2:
        builder.software["cuda"] = f"{version[0]}.{version[1]}"
    options = build.get("build_options") if isinstance(build, dict) else None
    if isinstance(options, dict) and isinstance(options.get("Precision"), str):
        builder.notes.append(f"The engine was built for {options['Precision'][:100]}.")


def _device(facts: Mapping[str, Any], told: Mapping[str, Any]) -> TracedDevice:
    memory = _MIB.match(str(told.get("Device Global Memory", "")))
    total = facts.get("TotalMemory")
    cores = facts.get("MULTIPROCESSOR_COUNT", told.get("SMs"))
    capability = told.get("Compute Capability")
    if "COMPUTE_CAPABILITY_MAJOR" in facts:
        capability = f"{facts['COMPUTE_CAPABILITY_MAJOR']}.{facts.get('COMPUTE_CAPABILITY_MINOR')}"
    return traced_device(
        0,
        str(facts.get("Name") or told.get("Selected Device") or ""),
        memory_bytes=total if type(total) is int else int(memory[1]) * 2**20 if memory else None,
        multiprocessors=int(cores)
        if isinstance(cores, int | float) and 0 < cores < 10**6
        else None,
        architecture=str(capability or ""),
    )


def _load(path: Path | None, limits: TraceLimits) -> Any:
    """Return a small JSON file; None where there is none."""
    if path is None:
        return None
    text = read_head(path, limits)
    try:
        if len(text) >= HEAD_BYTES:
            raise ValueError("it is too large")
        return orjson.loads(text)
    except ValueError as error:
        raise InvalidTraceError(
            f"{path.name}, which lies beside the trace and describes it, is no sound JSON: "
            f"{error}. Repair it or move it away."
        ) from error
