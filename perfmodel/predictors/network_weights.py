"""Arrays on disk as safetensors, and weights of networks among them.

The one file that touches safetensors; what is learned is read without the library that learned it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfmodel.errors import MissingExtraError

try:
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_arrays
    from safetensors.numpy import save as save_arrays
except ImportError as error:
    raise MissingExtraError("Answering from networks", extra="serve") from error

__all__ = [
    "UNREADABLE", "Weights", "check_shapes", "load_arrays", "read_weights", "save_arrays",
    "write_weights",
]  # fmt: skip

Weights = npt.NDArray[np.float32]

#: What reading raises where a file is no longer what was written.
UNREADABLE = (OSError, KeyError, TypeError, ValueError, SafetensorError)


def write_weights(path: Path, weights: Mapping[str, npt.NDArray[np.floating]]) -> None:
    """Write named arrays as float32."""
    plain = {name: np.ascontiguousarray(one, dtype=np.float32) for name, one in weights.items()}
    path.write_bytes(save_arrays(plain))


def read_weights(path: Path) -> dict[str, Weights]:
    """Read what :func:`write_weights` wrote.

    Raises
    ------
    OSError, SafetensorError, ValueError
        See :data:`UNREADABLE`; weights that are not finite are a ValueError.
    """
    stored = load_arrays(path.read_bytes())
    weights = {name: np.asarray(one, dtype=np.float32) for name, one in stored.items()}
    if not all(np.isfinite(one).all() for one in weights.values()):
        raise ValueError("it holds weights that are not finite")
    return weights


def check_shapes(
    weights: Mapping[str, npt.NDArray[np.floating]], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse weights that are not those of a network.

    Raises
    ------
    ValueError
        One is missing, beyond those of the network, or has another shape.
    """
    found = {name: one.shape for name, one in weights.items()}
    wrong = sorted(name for name in {*found, *shapes} if found.get(name) != shapes.get(name))
    if wrong:
        said = ", ".join(f"{name} {found.get(name)} for {shapes.get(name)}" for name in wrong[:3])
        raise ValueError(f"its weights do not fit its settings: {said}")
