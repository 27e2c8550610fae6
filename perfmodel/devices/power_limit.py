r"""The clock that a power limit leaves a GPU.

Makers state the clock that a chip reaches for a moment. Under arithmetic it draws, beside what it
draws at rest, ``P ~ cores f V^2``, and the voltage rises with the clock, so that about

.. math:: f \sim (P / cores)^{0.4}

of a power limit P (D. Brooks et al., "Power-aware microarchitecture", IEEE Micro 20(6), 2000, have
the cube root for ``V ~ f``; part of the range is at the least voltage). The card of a chip that
grants each core and hertz the most watts is taken to hold its clock; others hold as much less as
their limit says. A T4 and an RTX 2080 are of one generation, at 70 and 215 W.
"""

from __future__ import annotations

from functools import cache

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec

#: Of power per core and hertz; between 1 / 2 (voltage as the root of the clock) and 1 / 3.
EXPONENT = 0.4
#: Modules whose stated power is not that of the GPU alone.
_MODULE = "Superchip"


def lasting_share(spec: AcceleratorSpec) -> float:
    """Return the share of its boost clock that an accelerator holds under arithmetic.

    What its maker states (``sustained_clock_hz``) counts before what its power limit says.

    Returns
    -------
    float
        In (0, 1]; 1 for what is no GPU, for modules with a CPU, and where a fact is missing.

    Examples
    --------
    A T4 grants 70 W to 40 cores at 1.59 GHz, 1.10 nW per core and hertz, an RTX 2060 160 W to 30 at
    1.68 GHz, 3.17: ``(1.10 / 3.17)^0.4 = 0.655``.

    >>> round(lasting_share(Catalog.default().get("T4")), 3)
    0.655
    >>> lasting_share(Catalog.default().get("K80")) == 562 / 875  # stated
    True
    """
    own = _watts(spec)
    if spec.sustained_clock_hz is not None or own is None:
        return spec.sustained_share
    return min(1.0, (own / max(own, _most_watts(spec.vendor, spec.architecture))) ** EXPONENT)


@cache
def _most_watts(vendor: str, architecture: str) -> float:
    """Return the most that cards of a chip grant; of a generation, where no chip is stated."""
    catalog = Catalog.default()
    chip = architecture.split()
    found = [0.0]
    for spec in map(catalog.get, catalog.names()):
        pairs = zip(chip, spec.architecture.split(), strict=False)
        watts = _watts(spec)
        if watts is not None and spec.vendor == vendor and all(a == b for a, b in pairs):
            found.append(watts)
    return max(found)


def _watts(spec: AcceleratorSpec) -> float | None:
    """Return the power limit per core and hertz; None where it says nothing."""
    if spec.kind != "gpu" or spec.form_factor.startswith(_MODULE):
        return None
    if not (spec.tdp_w and spec.core_count and spec.clock_hz):
        return None
    return spec.tdp_w / spec.core_count / spec.clock_hz
