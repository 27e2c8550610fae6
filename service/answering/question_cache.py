"""Jobs and placements that were read before, recognised by how they were written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import PreparedJob
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement, resolve_placement
from perfmodel.lru import LruCache
from perfmodel.placement.topology.parse import parse_placement

#: What the texts by which jobs are recognised take together at most, bytes.
MOST_KEY_BYTES = 64 * 2**20

#: What tells a part of a question from others: a text is its own, of all else it is the JSON.
Key = str | bytes


class JobCache(LruCache[Key, PreparedJob]):
    """Recognises jobs, and tells of each that it is given."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, weigh=lambda key, prepared: len(key), most_weight=MOST_KEY_BYTES)
        #: Told of every job that is kept; must not wait.
        self.on_new: Callable[[PreparedJob], object] = lambda prepared: None

    def put(self, key: Key, value: PreparedJob) -> None:
        """Recognise a job from now on."""
        super().put(key, value)
        self.on_new(value)


class QuestionCache:
    """Recognises parts of questions, whatever the order of their fields, and reads new ones.

    Parameters
    ----------
    catalog : Catalog
        Where accelerators of placements are looked up.
    """

    def __init__(self, catalog: Catalog, jobs: JobCache) -> None:
        self._catalog = catalog
        self._jobs = jobs
        self._placements: LruCache[Key, ResolvedPlacement] = LruCache(
            16_384,
            weigh=lambda key, found: len(key) + found.placement.rough_bytes,
            most_weight=2 * MOST_KEY_BYTES,
        )

    def known(self, question: Any) -> tuple[PreparedJob, ResolvedPlacement] | None:
        """Return the parts of a question that asks nothing else, where its job is known."""
        if type(question) is not dict or question.keys() != {"job", "placement"}:
            return None
        prepared = self._jobs.get(_key(question["job"]))
        return None if prepared is None else (prepared, self.placement(question["placement"]))

    def job(self, written: Any) -> PreparedJob | None:
        """Return a job that was asked about before, or None."""
        return self._jobs.get(_key(written))

    def keep_job(self, written: Any, prepared: PreparedJob) -> None:
        """Recognise a job from now on."""
        self._jobs.put(_kept(_key(written)), prepared)

    def placement(self, written: Any) -> ResolvedPlacement:
        """Return a placement."""
        key = _key(written)
        known = self._placements.get(key)
        if known is None:
            try:
                # Not by way of the estimator, which would remember it a second time.
                known = resolve_placement(parse_placement(written), self._catalog)
            except InvalidInputError as error:
                point_at_text(error, written)
                raise
            self._placements.put(_kept(key), known)
        return known

    def recent_accelerators(self, most: int) -> list[str]:
        """Return the names of the accelerators of some placements, those asked about last first."""
        asked = [placement for _, placement in self._placements.recent_items(most)]
        names = (one.name for placement in asked for one in placement.accelerators)
        return list(dict.fromkeys(names))


def point_at_text(error: InvalidInputError, written: Any) -> None:
    """Let an error in a placement's short form point at the text: it has no parts in JSON."""
    if isinstance(written, str) and error.pointer.startswith("/placement/"):
        error.pointer = "/placement"


def _key(part: Any) -> Key:
    if type(part) is str:
        return part
    try:
        return orjson.dumps(part, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise InvalidInputError(f"A part of the question cannot be read: {error}.") from error


def _kept(key: Key) -> Key:
    """Return a key that takes no more room than it needs: what was just written has 4 kB."""
    return key if isinstance(key, str) else bytes(memoryview(key))
