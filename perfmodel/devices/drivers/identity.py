"""Which accelerator of the catalogue a driver means, and a description where it is none.

What decides, in this order: a MIG slice is never its whole card; the name that the driver prints,
in any spelling the catalogue knows; vendor and device on the PCI bus, for drivers that print a
family's name. Memory then has to agree: cards of one name are sold with different memories.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from perfmodel.devices.aliases import strip_decorations
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.cpu_bench import Rates
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import MeasurementError, UnknownAcceleratorError

#: Drivers offer up to 7 % less memory than the nominal capacity (ECC, firmware), never more than
#: rounding explains.
_LEAST_MEMORY, _MOST_MEMORY = 0.9, 1.05
#: A limit below this share of the board's own is a cap.
_CAPPED = 0.97
#: What a name says of form, limit and memory: ``A100-PCIe-40GB``, ``H200-NVL``.
_FORM = re.compile(r"-(?:PCIe|SXM\d?|NVL|Max-Q|Laptop|Workstation|Server|\d+GB)\b")
_VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What a device is.

    Parameters
    ----------
    accelerator : AcceleratorSpec or None
        Its entry in the catalogue; None where it has none: see :func:`describe`.
    power_limit_w : float or None
        The limit that is set, where it is below the board's own.
    notes : tuple of str
        What a reader of a measurement has to know, a sentence each.
    """

    accelerator: AcceleratorSpec | None
    power_limit_w: float | None = None
    notes: tuple[str, ...] = ()


def identify(facts: DeviceFacts, catalog: Catalog) -> Identity:
    """Find a device in the catalogue.

    Parameters
    ----------
    facts : DeviceFacts
        Of all sources together; see :func:`~.device_facts.merge_facts`.
    """
    notes = []
    capped_w = _cap(facts)
    if capped_w is not None:
        notes.append(
            f"Its power is limited to {capped_w:g} W of {facts.default_power_limit_w:g} W: what is "
            "measured holds for that limit."
        )
    if facts.mig_profile is not None:
        notes.append(f"It is a MIG slice ({facts.mig_profile}) and not its whole card.")
        return Identity(accelerator=None, power_limit_w=capped_w, notes=tuple(notes))
    named = _named(facts, catalog)
    fitting = None if named is None else _with_memory(named, facts, catalog)
    if named is not None and fitting is None:
        notes.append(
            f"Its driver calls it {facts.name!r}, but it has {_gib(facts.memory_bytes)} and not "
            f"the {_gib(named.memory_bytes)} of {named.name}."
        )
    elif fitting is not named and fitting is not None:
        notes.append(f"Told from {named.name if named else ''} by its memory.")
    return Identity(accelerator=fitting, power_limit_w=capped_w, notes=tuple(notes))


def describe(facts: DeviceFacts, rates: Rates) -> AcceleratorSpec:
    """Describe a device that the catalogue does not have, by what its driver says and it reaches.

    Measured peaks stand in the place of a datasheet's: predictions by them are honest, but
    efficiencies come out higher than on cards with stated peaks.

    Parameters
    ----------
    rates : Rates
        As :func:`perfmodel.devices.cpu_bench.measure_accelerator` measures them.

    Raises
    ------
    MeasurementError
        The driver does not say how much memory there is.
    """
    if facts.memory_bytes is None:
        raise MeasurementError(
            f"Nothing says how much memory {facts.name} has; install its vendor's library "
            "(nvidia-ml-py, amdsmi) or a newer PyTorch."
        )
    return AcceleratorSpec(
        name=own_name(facts),
        kind="gpu",
        vendor=_VENDORS.get(facts.backend, "unknown"),
        architecture=facts.architecture or "unknown",
        form_factor="MIG slice" if facts.mig_profile else "unknown",
        year=None,
        peak_flops=rates.gemm_flops_per_s,
        memory_bytes=facts.memory_bytes,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        cache_bytes=facts.cache_bytes,
        core_count=facts.core_count,
        clock_hz=facts.clock_hz,
        tdp_w=facts.power_limit_w,
        sources={
            "*": f"driver ({', '.join(facts.found_by)})",
            "peak_flops": f"measured: best square matrix product, {rates.engine}",
            "bandwidth_bytes_per_s": f"measured: best of triad, copy and sum, {rates.engine}",
        },
        notes=f"Not in the shipped catalogue; its driver calls it {facts.name!r}.",
    )


def own_name(facts: DeviceFacts) -> str:
    """Return the name under which a device that the catalogue does not have is kept.

    Examples
    --------
    >>> own_name(DeviceFacts(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb", backend="cuda",
    ...                      mig_profile="1g.10gb"))
    'A100-SXM4-80GB-MIG-1g.10gb'
    """
    name = re.sub(r"\s*MIG\s+\S+$", "", facts.name, flags=re.IGNORECASE)
    plain = strip_decorations(name).replace(" ", "-") or f"{facts.backend}-device"
    return f"{plain}-MIG-{facts.mig_profile}" if facts.mig_profile else plain


def _named(facts: DeviceFacts, catalog: Catalog) -> AcceleratorSpec | None:
    try:
        return catalog.get(facts.name)
    except UnknownAcceleratorError:
        name = _pci_names().get(":".join((facts.pci_id or "").lower().split(":")[:2]))
        return None if name is None else catalog.get(name)


def _with_memory(
    named: AcceleratorSpec, facts: DeviceFacts, catalog: Catalog
) -> AcceleratorSpec | None:
    """Return the named card, or the one of its name and form whose memory agrees."""
    if facts.memory_bytes is None or _agrees(named, facts.memory_bytes):
        return named
    same = [
        spec
        for spec in catalog
        if _line(spec) == _line(named) and _agrees(spec, facts.memory_bytes)
    ]
    return same[0] if len(same) == 1 else None


def _line(spec: AcceleratorSpec) -> tuple[str, str, str, str]:
    """Return what cards share that differ in memory alone: chip, form and the name before it."""
    before = _FORM.split(spec.name, maxsplit=1)[0]
    return spec.vendor, spec.architecture, spec.form_factor, before


def _agrees(spec: AcceleratorSpec, memory_bytes: float) -> bool:
    return _LEAST_MEMORY <= memory_bytes / spec.memory_bytes <= _MOST_MEMORY


def _cap(facts: DeviceFacts) -> float | None:
    limit_w, usual_w = facts.power_limit_w, facts.default_power_limit_w
    if limit_w is None or usual_w is None or limit_w >= _CAPPED * usual_w:
        return None
    return limit_w


def _gib(size_bytes: float | None) -> str:
    return "unknown memory" if size_bytes is None else f"{size_bytes / 2**30:.0f} GiB"


@cache
def _pci_names() -> Mapping[str, str]:
    """Return the canonical name by ``vendor:device``."""
    text = resources.files(__package__).joinpath("pci_ids.toml").read_text(encoding="utf-8")
    return {
        f"{vendor}:{device}": name
        for vendor, devices in tomllib.loads(text).items()
        for device, name in devices.items()
    }
