"""Everything that is counted, under which names and labels; Prometheus reads it at ``/metrics``."""

from __future__ import annotations

import math
import os
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from perfmodel.estimator import basis_names

#: Upper edges of request latencies, in seconds; a known question takes less than a millisecond.
LATENCY_EDGES_S = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
)  # fmt: skip

#: Upper edges of relative errors ``|predicted - observed| / observed``.
ERROR_EDGES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)

#: What workers on one host say of a gauge together: the sum, the worst, what was said last.
_SUM = {"multiprocess_mode": "livesum"}
_WORST = {"multiprocess_mode": "livemin"}
_LAST = {"multiprocess_mode": "livemostrecent"}

Instrument = TypeVar("Instrument", bound=MetricWrapperBase)


class _Declared(Generic[Instrument]):
    """An instrument that each application has one of, at the name that it is declared under."""

    def __init__(
        self, kind: type[Instrument], name: str, labels: str, text: str, **options: Any
    ) -> None:
        self._kind, self._name, self._text, self._options = kind, name, text, options
        self._labels = labels.split()

    def __get__(self, instruments: Instruments, owner: type[Instruments]) -> Instrument:
        raise AttributeError("instruments belong to an application: ask Instruments(registry)")

    def made(self, registry: CollectorRegistry) -> Instrument:
        """Return a new one that ``registry`` exposes."""
        return self._kind(self._name, self._text, self._labels, registry=registry, **self._options)


class Instruments:
    """The instruments of one application.

    Parameters
    ----------
    registry : CollectorRegistry
        Exposes them, in the order in which they stand here.
    """

    requests = _Declared(
        Counter,
        "perfmodel_requests",
        "method route status",
        "Requests by route, method and status.",
    )
    latency = _Declared(
        Histogram,
        "perfmodel_request_seconds",
        "route",
        "Seconds from a request to the start of its answer.",
        buckets=LATENCY_EDGES_S,
    )
    answers = _Declared(
        Counter,
        "perfmodel_answers",
        "route basis",
        "Answered cells by route and by what they rest on.",
    )
    fallbacks = _Declared(
        Counter,
        "perfmodel_fallbacks",
        "route reason",
        "Answers of the analytical model in the place of full ones, by route and reason.",
    )
    refusals = _Declared(
        Counter, "perfmodel_refused_requests", "status", "Requests that were not let in, by status."
    )
    error = _Declared(
        Histogram,
        "perfmodel_prediction_error_ratio",
        "accelerator",
        "Relative error of predicted against observed throughput.",
        buckets=ERROR_EDGES,
    )
    observed = _Declared(
        Counter,
        "perfmodel_observed_predictions",
        "accelerator covered",
        "Predictions that an observation followed, by whether their interval held it.",
    )
    queue = _Declared(Gauge, "perfmodel_queue_depth", "queue", "What waits in a queue.", **_SUM)
    model = _Declared(
        Gauge,
        "perfmodel_model_created_timestamp_seconds",
        "model",
        "When the model that answers was trained; 0: it was not trained.",
        **_LAST,
    )
    store_up = _Declared(
        Gauge,
        "perfmodel_model_store_up",
        "",
        "Whether the store of models could be reached when it was looked at last.",
        **_WORST,
    )
    store_seen = _Declared(
        Gauge,
        "perfmodel_model_store_seen_timestamp_seconds",
        "",
        "When the store of models could be reached last.",
        **_WORST,
    )
    retrainings = _Declared(
        Gauge, "perfmodel_retrainings", "state", "Retrainings in the database by state.", **_LAST
    )
    alarms = _Declared(
        Gauge, "perfmodel_drift_alarms", "kind", "Alarms that stand, by what is alarming.", **_LAST
    )
    compared = _Declared(
        Counter,
        "perfmodel_compared_observations",
        "answered",
        "Observations that were held against what was answered before, by whether there was.",
    )
    webhook = _Declared(
        Counter,
        "perfmodel_drift_webhooks",
        "outcome",
        "Changes of alarms that were told, by what came of it.",
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        for name, declared in vars(Instruments).items():
            if isinstance(declared, _Declared):
                setattr(self, name, declared.made(registry))


#: Requests that are counted in one go.
_BATCH = 128

_REFUSED = (401, 403, 429)

_MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """Counts for one application.

    With several workers each writes to a file of its own in the folder that
    ``PROMETHEUS_MULTIPROC_DIR`` names, and any of them answers with the sum.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("/v1/predict", "POST", 200, 0.0004)
    >>> b'route="/v1/predict",status="200"} 1.0' in metrics.exposition()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._instruments = Instruments(self._registry)
        self._pending: list[tuple[str, str, int, float]] = []
        # Another worker may be asked, and cannot see what waits here.
        self._batch = 1 if os.environ.get(_MULTIPROCESS_FOLDER) else _BATCH
        self._serving: str | None = None
        self._by_request: dict[tuple[str, str, int], tuple[Any, Any]] = {}
        self._by_basis: dict[tuple[str, str], Any] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request.

        Parameters
        ----------
        route : str
            The pattern that it matched, never its path: that would be without bound.
        seconds : float
            Until the answer started.
        """
        # Counted in batches: code that runs once in a while runs from cold caches and takes several
        # times as long.
        self._pending.append((route, method, status, seconds))
        if len(self._pending) >= self._batch:
            self._count_pending()

    def _count_pending(self) -> None:
        pending, self._pending = self._pending, []
        for route, method, status, seconds in pending:
            # What belongs to the labels is looked up once: that is most of what counting costs.
            counted = self._by_request.get((route, method, status))
            if counted is None:
                counted = self._by_request[route, method, status] = (
                    self._instruments.requests.labels(method, route, str(status)).inc,
                    self._instruments.latency.labels(route).observe,
                )
            counted[0]()
            counted[1](seconds)
            if status in _REFUSED:
                self._instruments.refusals.labels(str(status)).inc()

    def answer(self, route: str, basis: str, cells: int = 1) -> None:
        """Count answered cells."""
        add = self._by_basis.get((route, basis))
        if add is None:
            add = self._by_basis[route, basis] = self._instruments.answers.labels(route, basis).inc
        add(cells)

    def answers(self, route: str, bases: Iterable[str]) -> None:
        """Count answered cells by the names of their bases."""
        for basis, cells in Tally(bases).items():
            self.answer(route, basis, cells)

    def table(self, route: str, basis: npt.NDArray[Any]) -> None:
        """Count the cells of a table of codes of bases; what has no name was not answered."""
        codes, counts = np.unique(basis, return_counts=True)
        for name, cells in zip(basis_names(codes[np.newaxis])[0], counts, strict=True):
            if name is not None:
                self.answer(route, name, int(cells))

    def fallback(self, route: str, reason: str) -> None:
        """Count an answer that the analytical model gave in the place of the full one.

        Parameters
        ----------
        reason : str
            ``"deadline"`` or ``"overload"``.
        """
        self._instruments.fallbacks.labels(route, reason).inc()

    def observation(
        self, accelerator: str, observed: float, *, predicted: float, low: float, high: float
    ) -> None:
        """Compare a prediction with what was then observed.

        Parameters
        ----------
        observed, predicted, low, high : float
            Throughput, samples/s; the prediction that was, or would have been, answered without
            this observation, with its interval. What is not above 0 or not finite is left out.
        """
        if not (0 < observed < math.inf and 0 < predicted < math.inf):
            return
        self._instruments.error.labels(accelerator).observe(abs(predicted - observed) / observed)
        covered = "yes" if low <= observed <= high else "no"
        self._instruments.observed.labels(accelerator, covered).inc()

    def queue(self, name: str) -> Gauge:
        """Return the gauge of a queue: ``inc`` when something enters it, ``dec`` when it leaves."""
        return self._instruments.queue.labels(name)

    def serve_model(self, version: str, models: Iterable[Mapping[str, Any]]) -> None:
        """Note which model answers and when it was trained."""
        serving = next((facts for facts in models if facts.get("serving")), {})
        if self._serving not in (None, version) and not os.environ.get(_MULTIPROCESS_FOLDER):
            # Files of several workers cannot forget a label; there the newest is what counts.
            self._instruments.model.remove(self._serving)
        self._serving = version
        self._instruments.model.labels(version).set(_timestamp(serving.get("created_at")))

    def model_store(self, up: bool, seen_at: float) -> None:
        """Note whether the store of models could be reached, and when it could last."""
        self._instruments.store_up.set(up)
        self._instruments.store_seen.set(seen_at)

    def retrainings(self, by_state: Mapping[str, int]) -> None:
        """Note how many retrainings are in each state."""
        for state, count in by_state.items():
            self._instruments.retrainings.labels(state).set(count)

    def drift_alarms(self, counts: Mapping[str, int]) -> None:
        """Note how many alarms stand, by what is alarming; every kind with its number."""
        for kind, count in counts.items():
            self._instruments.alarms.labels(kind).set(count)

    def compared(self, *, answered: int, left_out: int) -> None:
        """Count observations that were held against what was answered before."""
        self._instruments.compared.labels("yes").inc(answered)
        self._instruments.compared.labels("no").inc(left_out)

    def drift_webhook(self, outcome: str) -> None:
        """Count a change of an alarm that was told: ``sent`` or ``failed``."""
        self._instruments.webhook.labels(outcome).inc()

    def exposition(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        self._count_pending()
        folder = os.environ.get(_MULTIPROCESS_FOLDER)
        if folder:
            _forget_ended_workers(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry)
        return generate_latest(self._registry)


def _forget_ended_workers(folder: Path) -> None:
    """Remove what workers said last of what is going on in them, once they are gone."""
    for file in folder.glob("gauge_live*_*.db"):
        worker = int(file.stem.rpartition("_")[2])
        try:
            os.kill(worker, 0)
        except OSError:
            # Another that is asked may have removed them by now.
            with suppress(FileNotFoundError):
                mark_process_dead(worker, str(folder))  # type: ignore[no-untyped-call]


def _timestamp(written: Any) -> float:
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except ValueError:
        return 0.0
