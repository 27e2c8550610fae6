"""How a node network learns, and how wide it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NodeNetSettings:
    """How to learn.

    Parameters
    ----------
    learning_rate : float
        Highest rate of the one-cycle schedule.
    shrinkage : float
        Weight of the squared device effects in the loss.
    host_shrinkage : float
        Weight of the squares of what settings change, and of how far calls for sorts of rows lie
        from their mean: a framework that was measured on few devices is not ten times slower.
    blur : float
        Noise on the inputs that tell devices apart.
    tolerance : float
        Logarithmic error up to which the loss is quadratic.
    overlap : float
        Exponent of the norm that makes a step of what its device works and what its host calls,
        see :mod:`.node_network`; 1 where they wait for each other.
    """

    seed: int = 0
    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 2e-3
    shrinkage: float = 0.003
    host_shrinkage: float = 3e-4
    blur: float = 0.05
    tolerance: float = 0.1
    wide: int = 96
    narrow: int = 48
    overlap: float = 3.0
