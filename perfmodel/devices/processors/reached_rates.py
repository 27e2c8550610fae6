"""What a CPU reaches of the rates that its maker states.

Peaks of CPUs in the catalogue are cores times FLOP per cycle times the clock with all cores busy;
those of a machine that was measured are what a matrix product and a stream reached there. Steps
of both are compared only where they mean the same. Of what is stated

- a matrix product reaches 0.8, as on other devices (``USUAL_MATMUL_SHARE``),
- at a clock that wide vector units lower to 0.8: with all cores busy a Xeon Platinum 8180 runs at
  3.2 GHz, at 2.8 in AVX2 and 2.3 in AVX-512 (Intel's specification update, recalled),
- and a stream reaches 0.8 of channels times transfers (J. D. McCalpin's STREAM tables, recalled).
"""

from __future__ import annotations

from perfmodel.devices.spec import USUAL_MATMUL_SHARE, AcceleratorSpec

_VECTOR_CLOCK = 0.8
_STREAM = 0.8


def arithmetic_share(spec: AcceleratorSpec) -> float:
    """Return the share of its stated arithmetic that a CPU reaches; 1 for all others.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> round(arithmetic_share(Catalog.default().get("Core-i9-10940X")), 2)
    0.64
    >>> arithmetic_share(Catalog.default().get("T4"))
    1.0
    """
    return USUAL_MATMUL_SHARE * _VECTOR_CLOCK if _is_stated_cpu(spec) else 1.0


def stream_share(spec: AcceleratorSpec) -> float:
    """Return the share of its stated bandwidth that a CPU reaches; 1 for all others."""
    return _STREAM if _is_stated_cpu(spec) else 1.0


def _is_stated_cpu(spec: AcceleratorSpec) -> bool:
    return spec.kind == "cpu" and not spec.is_measured
