"""The accelerator that a device of this machine is: from the catalogue, or described here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.cpu_bench import Rates, measure_accelerator
from perfmodel.devices.drivers.identity import describe, identify, own_name
from perfmodel.devices.local_cpu import LocalCpu, kept_spec
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import MeasurementError
from perfmodel.profilers.runtime import DeviceRuntime


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedDevice:
    """A device and what is known of it.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        Measurements are stored under its name.
    in_catalog : bool
        False for a device whose entry a service has to be told, or the catalogue given.
    notes : tuple of str
        What a reader of its measurements has to know, a sentence each.
    """

    accelerator: AcceleratorSpec
    in_catalog: bool
    notes: tuple[str, ...] = ()


def described_device(runtime: DeviceRuntime) -> DescribedDevice:
    """Find a device in the catalogue, or measure what it reaches and describe it.

    The CPU of this machine is measured the first time and kept; so is an accelerator that the
    catalogue does not have (half a minute).

    Raises
    ------
    MeasurementError
        A recording of another CPU, or of an unknown accelerator: it is not here to be measured.
    """
    if runtime.facts.backend == "cpu":
        cpu = LocalCpu()
        if runtime.facts.name != cpu.name:
            raise MeasurementError(
                f"This is a recording of {runtime.facts.name}, and this machine is {cpu.name}: its "
                "peaks cannot be measured here. Replay it where it was recorded."
            )
        return DescribedDevice(accelerator=cpu.describe(), in_catalog=True)
    identity = identify(runtime.facts, Catalog.default())
    if identity.accelerator is not None:
        return DescribedDevice(
            accelerator=identity.accelerator, in_catalog=True, notes=identity.notes
        )
    facts = runtime.facts
    spec = kept_spec(
        own_name(facts), facts.to_dict(), lambda: describe(facts, _measured_rates(runtime))
    )
    return DescribedDevice(accelerator=spec, in_catalog=False, notes=identity.notes)


def save_entry(folder: Path, device: DescribedDevice) -> Path | None:
    """Write the entry of a device that the catalogue does not have beside its records.

    The file is the body of ``PUT /v1/accelerators/<name>``, and says what a table of
    ``catalog.toml`` would say.

    Returns
    -------
    Path or None
        ``<folder>/<name>/accelerator.json``; None for a device that the catalogue has.
    """
    if device.in_catalog:
        return None
    facts = spec_to_dict(device.accelerator)
    path = folder / str(facts.pop("name")) / "accelerator.json"
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(facts, option=options))
    return path


def _measured_rates(runtime: DeviceRuntime) -> Rates:
    if runtime.torch_device == "cpu":
        raise MeasurementError(
            f"{runtime.facts.name} is not in the catalogue, and a recording cannot be measured; "
            "add it to the catalogue (docs/devices.md), or run where the device is."
        )
    import torch

    return measure_accelerator(torch, runtime.torch_device, runtime.synchronise)
