"""Everything that is counted, under which names and labels."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

#: Upper edges of request latencies, in seconds; a known question takes less than a millisecond.
LATENCY_EDGES_S = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
)  # fmt: skip

#: Upper edges of relative errors ``|predicted - observed| / observed``.
ERROR_EDGES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)

#: What workers on one host say of a gauge together: the sum, the worst, what was said last.
_SUM = {"multiprocess_mode": "livesum"}
_WORST = {"multiprocess_mode": "livemin"}
_LAST = {"multiprocess_mode": "mostrecent"}

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
