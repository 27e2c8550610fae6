"""Accelerators of one chip, which differ in how much of it they have.

Where a catalogue states the generation alone (``Turing``, ``M1``), all of it is one: its chips have
the same cores, more or fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from perfmodel.devices.spec import AcceleratorSpec


def sisters_of(
    spec: AcceleratorSpec, accelerators: Iterable[AcceleratorSpec]
) -> tuple[AcceleratorSpec, ...]:
    """Return the accelerators of the same chip, by name; with it.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> known = Catalog.default()
    >>> [one.name for one in sisters_of(known.get("P100-PCIe-16GB"), known)]
    ['P100-PCIe-16GB', 'P100-SXM2-16GB']
    """
    if spec.kind != "gpu" or spec.architecture in ("", "unknown"):
        return (spec,)
    chip = spec.kind, spec.vendor, spec.architecture
    alike = [one for one in accelerators if (one.kind, one.vendor, one.architecture) == chip]
    found = {one.name: one for one in (*alike, spec)}
    return tuple(found[name] for name in sorted(found))


def is_weaker(spec: AcceleratorSpec, other: AcceleratorSpec) -> bool:
    """Tell whether a sister has less of something than another one, and nothing more than it.

    Power limit, cores, clock, bandwidth of memory and the peaks of all types are compared as far as
    they are known of both; how much memory there is makes no step faster.

    Examples
    --------
    >>> import dataclasses
    >>> from perfmodel.devices.catalog import Catalog
    >>> card, module = map(Catalog.default().get, ("A100-PCIe-80GB", "A100-SXM4-80GB"))
    >>> is_weaker(card, module), is_weaker(module, card), is_weaker(card, card)
    (True, False, False)
    >>> less, more = map(Catalog.default().get, ("A100-SXM4-40GB", "A100-SXM4-80GB"))
    >>> is_weaker(less, more), is_weaker(more, less)
    (True, False)
    >>> unstated = dataclasses.replace(more, tdp_w=None)
    >>> is_weaker(unstated, more), is_weaker(more, unstated)
    (False, False)
    """
    facts = [
        (spec.tdp_w, other.tdp_w),
        (spec.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s),
        (spec.core_count, other.core_count),
        (spec.clock_hz, other.clock_hz),
        *((rate, other.peak_flops.get(name)) for name, rate in spec.peak_flops.items()),
    ]
    pairs = [(one, two) for one, two in facts if one is not None and two is not None]
    return all(one <= two for one, two in pairs) and any(one < two for one, two in pairs)
