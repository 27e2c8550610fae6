r"""The clock that a power limit leaves a GPU.

Makers state the clock that a chip reaches for a moment. Under arithmetic it draws, beside what it
draws at rest, ``P ~ cores f V^2``, and the voltage rises with the clock, so that about

.. math:: f \sim (P / cores)^{0.4}

of a power limit P (the cube root where V rises as f does, less where V is at its least: D. Brooks
et al., "Power-aware microarchitecture", IEEE Micro 20(6), 2000). The card of a chip that grants
each core the most watts is taken to hold its boost clock; what another limit leaves follows from
there. A T4 and an RTX 2070 Super carry one chip, at 70 and 215 W.
"""

from __future__ import annotations

from functools import cache

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec

#: Of power per core; between 1 / 2 (voltage as the root of the clock) and 1 / 3.
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
    A T4 grants 70 W to 40 cores, an RTX 2070 Super 215 W to 40 at 1.77 GHz: a T4 holds
    ``1.77 (70 / 215)^0.4 = 1.13`` of its 1.59 GHz.

    >>> round(lasting_share(Catalog.default().get("T4")), 2)
    0.71
    >>> lasting_share(Catalog.default().get("K80")) == 562 / 875  # stated
    True
    """
    own = _watts(spec)
    if spec.sustained_clock_hz is not None or own is None or not spec.clock_hz:
        return spec.sustained_share
    most, clock_hz = _most_powered(spec.vendor, spec.architecture)
    if own >= most:
        return 1.0
    return float(min(1.0, clock_hz * (own / most) ** EXPONENT / spec.clock_hz))


@cache
def _most_powered(vendor: str, architecture: str) -> tuple[float, float]:
    """Return watts per core and boost clock of the card of a chip that grants the most.

    Where no chip is stated, of a generation.
    """
    catalog = Catalog.default()
    chip = architecture.split()
    found = [(0.0, 0.0)]
    for spec in map(catalog.get, catalog.names()):
        pairs = zip(chip, spec.architecture.split(), strict=False)
        watts = _watts(spec)
        if watts is not None and spec.vendor == vendor and all(a == b for a, b in pairs):
            found.append((watts, spec.clock_hz or 0.0))
    return max(found)


def _watts(spec: AcceleratorSpec) -> float | None:
    """Return the power limit per core; None where it says nothing."""
    if spec.kind != "gpu" or spec.form_factor.startswith(_MODULE):
        return None
    if not (spec.tdp_w and spec.core_count and spec.clock_hz):
        return None
    return spec.tdp_w / spec.core_count
