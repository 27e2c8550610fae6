"""Named models: ``timm/<name>``, transformers configs and reference workloads.

The names below are imported on first use, so that importing the package imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel.zoo.bundle import ModelBundle
    from perfmodel.zoo.resolve import build_bundle, build_program, capture_job, known_models

_HOMES = {
    "ModelBundle": "bundle",
    "build_bundle": "resolve",
    "build_program": "resolve",
    "capture_job": "resolve",
    "known_models": "resolve",
}

__all__ = [
    "ModelBundle",
    "build_bundle",
    "build_program",
    "capture_job",
    "known_models",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the file that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"perfmodel.zoo.{_HOMES[name]}"), name)
