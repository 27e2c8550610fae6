"""Where what is learned from lies, and the names by which parts of it are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfmodel.errors import InvalidInputError, nearest_names

OBSERVATIONS = "observations"
CAMPAIGNS = "campaigns"


@dataclass(frozen=True, kw_only=True)
class DataSources:
    """Where what is learned from lies.

    Parameters
    ----------
    profiles : tuple of Path
        Folders of records: of profiles, campaigns and probes. What they hold are the sources
        ``"<name of the folder>/<device>"``, or ``"campaigns/<name>"`` where a campaign of the
        database measured it.
    data : Path or None
        Folder of public tables, each a source by the name of its format.
    """

    profiles: tuple[Path, ...]
    data: Path | None = None


def is_left_out(source: str, without: Iterable[str]) -> bool:
    """Tell whether a source is among those that are left out.

    Examples
    --------
    >>> is_left_out("profiles/T4", ["profiles"]), is_left_out("profiles/T4", ["profiles/T"])
    (True, False)
    """
    return any(source == one or source.startswith(f"{one}/") for one in without)


def check_names(without: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of sources that name nothing: what shall be left out must not stay in.

    Raises
    ------
    InvalidInputError
        One of them, with the nearest names.
    """
    there = sorted(set(known))
    for one in without:
        if not any(is_left_out(source, [one]) for source in there):
            near = nearest_names(one, [*there, *{name.partition("/")[0] for name in there}])
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InvalidInputError(
                f"There is no source {one!r} to leave out.{meant} Known: "
                f"{', '.join(there) or 'none'}.",
                pointer="/settings/without",
                allowed=there if len(there) <= 20 else (),
            )
