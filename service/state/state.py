"""What the service remembers, what of it counts for answers, and jobs by their references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from perfmodel.errors import NotInTimeError, UnknownJobError
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.json_values import refuse_unknown
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.campaigns import CampaignStore, ReferenceStore
from perfmodel.store.feedback import AlarmStore, ResidualStore
from perfmodel.store.retraining import RetrainingLogStore, RetrainingStore, TriggerStore
from perfmodel.store.sql.shared_store import RevisionWatch
from perfmodel.store.state.accelerators import AcceleratorStore
from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import JobStore
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observation_writer import ObservationWriter
from perfmodel.store.state.observations import ObservationStore
from perfmodel.store.state.operations import OperationStore
from perfmodel.store.state.prices import REVISION as PRICES
from perfmodel.store.state.prices import PriceStore, RememberedPrices
from service.state.stored_forms import readable_observations

_REFERENCE = re.compile(r"[0-9a-f]{32}")

#: What registered jobs that are remembered take together at most, as JSON.
_MOST_BYTES = 32 * 2**20


class _Known(NamedTuple):
    job: Mapping[str, Any]
    size_bytes: int


class JobReferences:
    """Finds registered jobs; what was found once is not read again, for it never changes."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._known: LruCache[str, _Known] = LruCache(
            10_000, weigh=lambda ref, known: known.size_bytes, most_weight=_MOST_BYTES
        )

    def known(self, ref: str) -> Mapping[str, Any] | None:
        """Return a job that was looked up before, or None; never waits."""
        known = self._known.get(ref)
        return None if known is None else known.job

    def keep(self, ref: str, content: str) -> None:
        """Know a job that was just registered."""
        self._known.put(ref, _Known(orjson.loads(content), len(content)))

    def find(self, ref: str) -> Mapping[str, Any] | None:
        """Return a job as decoded JSON, or None where nobody registered it."""
        known = self._known.get(ref)
        if known is None and _REFERENCE.fullmatch(ref):
            stored = self._jobs.find(ref)
            if stored is not None:
                known = _Known(orjson.loads(stored.content), len(stored.content))
                self._known.put(ref, known)
        return None if known is None else known.job


class ReferencesInMemory:
    """Finds registered jobs that were looked up before; never waits for the database."""

    def __init__(self, references: JobReferences) -> None:
        self._references = references

    def find(self, ref: str) -> Mapping[str, Any]:
        """Return a job as decoded JSON.

        Raises
        ------
        NotInTimeError
            It was not looked up yet; perhaps nobody registered it.
        """
        known = self._references.known(ref)
        if known is None:
            raise NotInTimeError(
                f"The job {ref[:100]!r} was not looked up yet. Ask again: it is being looked up."
            )
        return known


#: Where registered jobs are.
JobFinder = JobReferences | ReferencesInMemory


def resolve_job_reference(value: Any, store: JobFinder, *, pointer: str = "/job") -> Any:
    """Return the job that a request means: a reference is looked up, all else is as it came.

    Parameters
    ----------
    value : object
        What stands where a job is expected: the job itself, ``"<ref>"`` or ``{"ref": "<ref>"}``.

    Raises
    ------
    UnknownJobError
        A reference that nobody registered.
    """
    ref = value
    if isinstance(value, Mapping) and isinstance(value.get("ref"), str):
        refuse_unknown(value, ("ref",), pointer)
        ref, pointer = value["ref"], f"{pointer}/ref"
    if not isinstance(ref, str):
        return value
    found = store.find(ref)
    if found is None:
        raise UnknownJobError(
            ref[:100],
            pointer=pointer,
            hint="Register it with POST /v1/jobs, or send the job itself, as in "
            '{"model": "timm/resnet50", "mode": "training", "batch_size": 64}.',
        )
    return found


class State:
    """Everything that is kept in one database; may be shared by threads.

    Parameters
    ----------
    observations_keep_s : float
        Age from which observations count no longer; 0: never.
    """

    def __init__(self, database: Database, *, observations_keep_s: float = 0.0) -> None:
        self.database = database
        self.jobs = JobStore(database.connections)
        self.references = JobReferences(self.jobs)
        self.observations = ObservationStore(database.connections, keep_s=observations_keep_s)
        self.writer = ObservationWriter(self.observations)
        self.prices = RememberedPrices(database.connections)
        self.own = AcceleratorStore(database.connections)
        self.operations = OperationStore(database.connections)
        self.campaigns = CampaignStore(database.connections)
        self.retrainings = RetrainingStore(database.connections)
        self.retraining_triggers = TriggerStore(database.connections)
        self.retraining_log = RetrainingLogStore(database.connections)
        self.campaign_references = ReferenceStore(database.connections)
        self.residuals = ResidualStore(database.connections)
        self.alarms = AlarmStore(database.connections)
        self.feed = ObservationFeed(self.observations, readable_observations)
        #: Tells of what other processes change; does nothing until it is started.
        self.watch = RevisionWatch(database.connections)
        self.watch.on_change(PRICES, self.prices.refresh)
        # Now, while the database is known to be there: rankings need not wait for it later.
        self.prices.refresh()

    @classmethod
    def beside(cls, estimator: Estimator, *, observations_keep_s: float = 0.0) -> State:
        """Return the state in the database of an estimator's graphs; in memory if it has none."""
        graphs = estimator.core.graphs
        kept = graphs.database if isinstance(graphs, GraphLibrary) else None
        return cls(kept or Database("sqlite://"), observations_keep_s=observations_keep_s)

    def close(self) -> None:
        """Write what waits for the disk, and give back every connection."""
        self.watch.close()
        self.writer.close()
        self.feed.close()
        self.database.close()


class InMemoryState:
    """The part of what is remembered that takes no time.

    What was observed counts for job types alone, which are known by nothing else.
    """

    def __init__(self, whole: AnyState) -> None:
        self.prices: PriceStore = whole.prices
        found: JobFinder = whole.references
        self.references: JobFinder = (
            ReferencesInMemory(found) if isinstance(found, JobReferences) else found
        )
        self.feed: FeedInMemory = FeedInMemory(whole.feed)


class FeedInMemory:
    """Tells what is known to have been observed; nothing where that would have to wait."""

    def __init__(self, whole: ObservationFeed[Observation] | FeedInMemory) -> None:
        self._whole = whole

    def known(self, family: str | None) -> tuple[Observation, ...] | None:
        """Return what was observed of a family, or None; of all (None), of job types alone."""
        seen = self._whole.known(family)
        if family is not None:
            return seen
        return tuple(one for one in seen or () if one.job is not None and one.job.job_type)

    def of(self, family: str | None) -> tuple[Observation, ...]:
        """Return what was observed, as :meth:`known`."""
        return self.known(family) or ()


#: What an answer may rest on: registered jobs, prices, observations. What is *known* is in memory,
#: or None where it would have to be waited for; all else may wait.
AnyState = State | InMemoryState
