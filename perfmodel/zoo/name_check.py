"""Which names timm has no model of, told without importing it: that takes seconds."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from perfmodel.devices.extras import installed_version
from perfmodel.errors import UnknownModelError
from perfmodel.graph.hub_models.spoken_names import listed_timm_names


def check_timm_name(name: str) -> None:
    """Refuse a name that the sources of the installed timm do not mention.

    Of other releases than the one whose names are listed, and of deprecated names, the sources
    know; what they only mention is refused where the model is built.

    Parameters
    ----------
    name : str
        Without the ``timm/`` prefix; a pretrained tag may follow.

    Raises
    ------
    UnknownModelError
        No such model; carries the nearest names.
    """
    structure = name.partition(".")[0]
    listed = listed_timm_names()
    if structure not in listed and _sources() and structure not in _mentioned():
        raise unknown_timm_model(name, listed)


def unknown_timm_model(name: str, known: Iterable[str]) -> UnknownModelError:
    """Return what is said of a name that timm has no model of."""
    return UnknownModelError(
        f"timm/{name}",
        known=[f"timm/{each}" for each in known],
        pointer="/job/model",
        hint=f"timm {installed_version('timm')} is installed.",
    )


@cache
def _mentioned() -> frozenset[str]:
    """Return what the sources define or quote, up to where a tag begins."""
    pattern = re.compile(r"""(?:def |['"])(\w+)""")
    return frozenset(
        found for path in _sources() for found in pattern.findall(path.read_text("utf-8"))
    )


@cache
def _sources() -> tuple[Path, ...]:
    found = importlib.util.find_spec("timm")
    folders = found.submodule_search_locations if found else None
    return tuple(path for one in folders or () for path in Path(one, "models").rglob("*.py"))
