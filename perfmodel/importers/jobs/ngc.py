"""Which software an NGC PyTorch container holds.

Reference: NVIDIA, *Frameworks Support Matrix*, PyTorch column. Recalled, not fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from perfmodel.types import AttentionKernel

#: PyTorch and CUDA, and the releases that were built with them.
_BUILDS = (
    ("1.1.0", "10.1", "19.05 19.06"),
    ("1.2.0", "10.1", "19.07 19.08 19.09"),
    ("1.3.0", "10.1", "19.10"),
    ("1.4.0", "10.2", "19.11 19.12 20.01"),
    ("1.5.0", "10.2", "20.02 20.03"),
    ("1.6.0", "11.0", "20.06 20.07"),
    ("1.7.0", "11.0", "20.08 20.09"),
    ("1.7.0", "11.1", "20.10"),
    ("1.8.0", "11.1", "20.11 20.12"),
    ("1.8.0", "11.2", "21.02"),
    ("1.9.0", "11.2", "21.03"),
    ("1.9.0", "11.3", "21.04 21.05 21.06"),
    ("1.10.0", "11.4", "21.07 21.08 21.09 21.10"),
    ("1.11.0", "11.5", "21.11 21.12"),
    ("1.11.0", "11.6", "22.01 22.02"),
    ("1.12.0", "11.6", "22.03 22.04"),
    ("1.12.0", "11.7", "22.05"),
    ("1.13.0", "11.7", "22.06 22.07 22.08"),
    ("1.13.0", "11.8", "22.09 22.10 22.11"),
    ("2.1.0", "12.1", "23.06"),
    ("2.3.0", "12.4", "24.03"),
    ("2.5.0", "12.6", "24.09 24.10"),
    ("2.8.0", "12.9", "25.06"),
)
_RELEASES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {release: (torch, cuda) for torch, cuda, listed in _BUILDS for release in listed.split()}
)

#: What the BERT of NVIDIA's examples runs in every container: attention by its parts, and mixed
#: precision of apex.
EXAMPLES_BERT: Mapping[str, str] = MappingProxyType(
    {"attention": AttentionKernel.EAGER.value, "apex": "O2"}
)

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


def ngc_software(release: str | None) -> dict[str, str]:
    """Return the versions in a container; empty for one that is not listed.

    Parameters
    ----------
    release : str or None
        ``"22.09"``; of ``"22.09/22.10"`` the first counts.

    Examples
    --------
    >>> ngc_software("24.03")
    {'torch': '2.3.0', 'cuda': '12.4'}
    >>> ngc_software(None)
    {}
    """
    known = _RELEASES.get((release or "").split("/")[0])
    return {} if known is None else {"torch": known[0], "cuda": known[1]}


def plain_version(version: str) -> str:
    """Return a version without what marks its build.

    Examples
    --------
    >>> plain_version("2.3.0a0+40ec155e58.nv24.03")
    '2.3.0'
    """
    match = _VERSION.match(version)
    return match.group() if match else version
