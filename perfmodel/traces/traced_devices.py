"""Devices that a trace names, and which of the catalogue they are.

A driver prints a name, an empty string or a family ("AMD Radeon Graphics"). A name that the
catalogue knows is taken as it is; otherwise cores, memory and architecture say which devices it can
be, and where that is one the answer is marked as a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError

#: LLVM target of AMD chips -> architecture in the catalogue; LLVM AMDGPU documentation,
#: "Processors".
GFX_ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {
        "gfx906": "Vega20",
        "gfx908": "CDNA1",
        "gfx90a": "CDNA2",
        "gfx940": "CDNA3",
        "gfx941": "CDNA3",
        "gfx942": "CDNA3",
        "gfx950": "CDNA4",
        # torch tells major and minor alone; 9.0 is that of three architectures.
        "gfx94": "CDNA3",
        "gfx95": "CDNA4",
    }
)
#: Drivers and ECC keep up to 7 % of a memory; none shows more than there is.
_LEAST_MEMORY, _MOST_MEMORY = 0.93, 1.005
#: Suffixes of virtual functions: a card that a hypervisor hands on whole.
_VIRTUAL = (" VF", " MxGPU")


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedDevice:
    """A device as a trace describes it.

    Parameters
    ----------
    index : int
        As the trace counts devices.
    name : str
        As told; may be empty.
    accelerator : str or None
        Canonical name, or None where the catalogue has no such device or several.
    guessed : bool
        The accelerator follows from facts, not from its name.
    architecture : str
        As told: ``"gfx942"``, ``"9.0"`` (compute capability); ``""`` untold.
    partial : bool
        The name is that of a known device and its memory is not.
    """

    index: int
    name: str
    accelerator: str | None = None
    guessed: bool = False
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    architecture: str = ""
    partial: bool = False


def traced_device(
    index: int,
    name: str,
    *,
    memory_bytes: int | None = None,
    multiprocessors: int | None = None,
    architecture: str = "",
) -> TracedDevice:
    """Return a device with its accelerator looked up, by name and else by facts.

    Parameters
    ----------
    memory_bytes : int or None
        As the driver counts it.
    multiprocessors : int or None
        SMs or CUs.
    architecture : str
        ``"gfx90a"`` or a compute capability.

    Examples
    --------
    >>> traced_device(0, "NVIDIA H100 80GB HBM3").accelerator
    'H100-SXM5-80GB'
    >>> found = traced_device(0, "", multiprocessors=304, architecture="gfx942:sramecc+:xnack-")
    >>> found.accelerator, found.guessed
    ('MI300X', True)
    """
    found = Catalog.default()
    named = accelerator = _by_name(name, found)
    if accelerator is not None and memory_bytes is not None:
        # A bare "NVIDIA H100" may be any of its cards: memory says which it is not.
        accelerator = accelerator if _fits(memory_bytes, found.get(accelerator)) else None
    guess = None
    if accelerator is None:
        amd = architecture.startswith("gfx") or "radeon" in name.lower() or not name
        guess = _by_facts(
            found,
            vendor="AMD" if amd else "NVIDIA",
            memory_bytes=memory_bytes,
            cores=multiprocessors,
            architecture=GFX_ARCHITECTURES.get(architecture.split(":")[0]),
        )
    return TracedDevice(
        index=index,
        name=name,
        accelerator=accelerator or guess,
        guessed=guess is not None,
        memory_bytes=memory_bytes,
        multiprocessors=multiprocessors,
        architecture=architecture,
        partial=named is not None and accelerator is None and guess is None,
    )


def _by_name(name: str, catalog: Catalog) -> str | None:
    for suffix in _VIRTUAL:
        name = name.removesuffix(suffix)
    try:
        return catalog.canonical_name(name) if name else None
    except UnknownAcceleratorError:
        return None


def _by_facts(
    catalog: Catalog,
    *,
    vendor: str,
    memory_bytes: int | None,
    cores: int | None,
    architecture: str | None,
) -> str | None:
    """Return the only device of a vendor that these facts allow; cores must be told.

    Where memory is not told, the first of a line of devices that differ in it alone.
    """
    if cores is None or (memory_bytes is None and architecture is None):
        return None
    specs = [catalog.get(name) for name in catalog.names()]
    fits = [
        spec
        for spec in specs
        if spec.vendor == vendor
        and spec.core_count == cores
        and (architecture is None or architecture in spec.architecture)
        and (memory_bytes is None or _fits(memory_bytes, spec))
    ]
    differ = len({spec.memory_bytes for spec in fits}) == len(fits)
    if len(fits) > 1 and (memory_bytes is not None or not differ):
        return None
    return min(fits, key=lambda spec: spec.year or 0).name if fits else None


def _fits(memory_bytes: int, spec: AcceleratorSpec) -> bool:
    return _LEAST_MEMORY <= memory_bytes / spec.memory_bytes <= _MOST_MEMORY
