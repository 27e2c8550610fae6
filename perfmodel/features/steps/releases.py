"""What a release of a framework has, as jobs state it in ``software``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfmodel.types import AttentionKernel, Framework

#: PyTorch that is meant where nothing is said, and the newest that steps were learned from, 2.13.
TYPICAL_TORCH = 2.4
_NEWEST_TORCH = 3.3
#: PyTorch that has a fused kernel of attention.
_FUSED_ATTENTION_TORCH = 2.0


def torch_version(software: Mapping[str, str]) -> float:
    """Return the PyTorch version as a number that grows by 0.1 per release.

    Releases 1.0 to 1.13 are followed by 2.0, so 1.13 becomes 1.9; those before 1.0 count as it,
    and those after the newest that was learned from as that: nothing tells how they differ.

    Examples
    --------
    >>> torch_version({"torch": "2.4.0"}), torch_version({"torch": "1.13.0a0+d0d6b1f"})
    (2.4, 1.9)
    >>> torch_version({}), torch_version({"torch": "99.9"})
    (2.4, 3.3)
    """
    match = re.match(r"(\d+)\.(\d+)", software.get("torch", ""))
    if match is None:
        return TYPICAL_TORCH
    major, minor = int(match[1]), int(match[2])
    if major < 1:
        major, minor = 1, 0
    grown = 2.0 + (minor - 14) / 10 if major < 2 else major + minor / 10
    return round(min(grown, _NEWEST_TORCH), 2)


def has_fused_attention(software: Mapping[str, str]) -> bool:
    """Tell whether attention is one kernel, which writes no scores.

    Examples
    --------
    >>> [has_fused_attention(software) for software in (
    ...     {"torch": "2.4.0"}, {"torch": "1.13.1"}, {"framework": "tensorflow"},
    ...     {"torch": "2.4.0", "attention": "eager"})]
    [True, False, False, False]
    """
    if stated := software.get("attention"):
        return AttentionKernel(stated) is AttentionKernel.FUSED
    framework = Framework.of(software)
    # XLA fuses what a step of JAX is made of.
    return framework is Framework.JAX or (
        framework is Framework.PYTORCH and torch_version(software) >= _FUSED_ATTENTION_TORCH
    )
