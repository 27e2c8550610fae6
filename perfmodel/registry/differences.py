"""What differs between two versions, by what their manifests say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: What says nothing beside the rest: hashes of files are compared one by one.
_LEFT_OUT = ("files", "digest", "format_version", "name")


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """One fact that differs.

    Parameters
    ----------
    fact : str
        Its keys, joined by dots: ``"joint.scores.regimes.gpu training eager.mape"``.
    before, after : object
        JSON values; None where a version does not say.
    """

    fact: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """What differs between two versions.

    Parameters
    ----------
    scores, facts : tuple of Differing
        Errors on what was held out, and everything else that a manifest says.
    files : tuple of str
        Paths of files whose content differs, or that one version has alone.
    """

    scores: tuple[Differing, ...]
    facts: tuple[Differing, ...]
    files: tuple[str, ...]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Differences:
    """Compare two manifests.

    Examples
    --------
    >>> found = differences({"seed": 0, "files": {}}, {"seed": 1, "files": {"a": {}}})
    >>> found.facts[0].fact, found.facts[0].after, found.files
    ('seed', 1, ('a',))
    """
    old, new = dict(_flat(before)), dict(_flat(after))
    differing = [
        Differing(fact=fact, before=old.get(fact), after=new.get(fact))
        for fact in sorted({*old, *new})
        if old.get(fact) != new.get(fact)
    ]
    one, other = before.get("files", {}), after.get("files", {})
    return Differences(
        scores=tuple(one for one in differing if _is_score(one.fact)),
        facts=tuple(one for one in differing if not _is_score(one.fact)),
        files=tuple(path for path in sorted({*one, *other}) if one.get(path) != other.get(path)),
    )


def _is_score(fact: str) -> bool:
    return "scores" in fact.split(".")


def _flat(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in manifest.items():
        if key not in _LEFT_OUT:
            yield from _flattened(key, value)


def _flattened(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for key, inner in value.items():
        yield from _flattened(f"{prefix}.{key}", inner)
