"""Which optional libraries are installed, and which extra brings those that are missing."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

#: What each extra is for.
EXTRAS = {
    "serve": "answer over HTTP",
    "train": "capture named and PyTorch models, profile, train predictors",
    "diffusers": "make models of diffusers in a file of your own",
    "onnx": "capture ONNX files, profile models in ONNX Runtime",
    "openvino": "profile in OpenVINO on CPUs",
    "nvidia": "identify NVIDIA GPUs, read their power and clocks",
    "energy": "measure energy",
    "postgres": "store in PostgreSQL",
    "ray": "run jobs on several machines",
    "dev": "check and test perfmodel itself",
}
_DISTRIBUTION = "perfmodel"
_REQUIREMENT = re.compile(r"^\s*(?P<name>[A-Za-z0-9][\w.\-]*)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA_MARKER = re.compile(r"""extra\s*==\s*["'](?P<extra>[\w.\-]+)["']""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Extra:
    """One extra of this distribution.

    Parameters
    ----------
    installed : tuple of (str, str)
        (library, version) of what it brings and is there.
    missing : tuple of str
        Libraries that it brings and that are absent.
    """

    name: str
    purpose: str
    installed: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing that it brings is missing."""
        return not self.missing

    @property
    def install_command(self) -> str:
        """How to get what is missing."""
        return f"pip install 'perfmodel[{self.name}]'"


@cache
def installed_version(library: str) -> str | None:
    """Return the version of an installed distribution without importing it, or None."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_extras(requirements: Iterable[str] | None = None) -> tuple[Extra, ...]:
    """Compare what the extras ask for with what is installed.

    Versions are reported, not compared: the installer has done that.

    Parameters
    ----------
    requirements : iterable of str or None
        Requirement lines as core metadata writes them (``'fastapi>=0.115; extra == "serve"'``);
        None: those of the installed perfmodel.

    Returns
    -------
    tuple of Extra
        One for each name of :data:`EXTRAS`. Empty where perfmodel is not installed as a
        distribution (a bare checkout on the path), since nothing then says what it needs.
    """
    if requirements is None:
        try:
            requirements = importlib.metadata.requires(_DISTRIBUTION) or ()
        except importlib.metadata.PackageNotFoundError:
            return ()
    asked = _libraries_by_extra(requirements)
    return tuple(_compare(name, asked.get(name, ())) for name in EXTRAS)


def _libraries_by_extra(requirements: Iterable[str]) -> dict[str, tuple[str, ...]]:
    asked: dict[str, list[str]] = {}
    for line in requirements:
        head, _, marker = line.partition(";")
        extra, library = _EXTRA_MARKER.search(marker), _REQUIREMENT.match(head)
        # An extra of our own that is made of others names this distribution again.
        if extra and library and library.group("name").lower() != _DISTRIBUTION:
            asked.setdefault(extra.group("extra"), []).append(library.group("name"))
    return {extra: tuple(dict.fromkeys(names)) for extra, names in asked.items()}


def _compare(name: str, libraries: Iterable[str]) -> Extra:
    versions = [(library, installed_version(library)) for library in libraries]
    return Extra(
        name=name,
        purpose=EXTRAS[name],
        installed=tuple((library, found) for library, found in versions if found is not None),
        missing=tuple(library for library, found in versions if found is None),
    )
