"""From stored measurements to samples."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import TrainingError
from perfmodel.features.roofline import step_bound_s
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Sample
from perfmodel.records import Measurement, StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.raised_rates import (
    descriptions,
    missing_factors,
    product_flops,
    product_rate,
    raised_spec,
)
from perfmodel.types import LEARNED_COMPILERS

#: Share of the profiled operator time that must have been joined to nodes for the operator
#: times of a workload to be used.
LEAST_JOINED_SHARE = 0.5
#: Largest relative spread of the repeated timings of a step that is marked as noisy.
MOST_SPREAD = 0.3
#: What a noisy measurement (spread, other processes, a throttled device) counts beside a quiet one.
NOISY_WEIGHT = 0.3
#: Why a measurement is left out whose repeats differ by more.
TOO_NOISY = "too noisy"


@dataclass(frozen=True, kw_only=True)
class SampleSet:
    """Samples, and what was left out.

    Parameters
    ----------
    dropped : mapping of str to int
        How many measurements were left out, by reason.
    notes : mapping of str to int
        What was used but is worth knowing: operator times not used, steps faster than their
        bound.
    """

    samples: tuple[Sample, ...]
    dropped: Mapping[str, int]
    notes: Mapping[str, int]


def load_samples(
    store: ProfileStore,
    *,
    device: str | None = None,
    chosen: Callable[[StepRecord], bool] | None = None,
    may_be_none: bool = False,
) -> SampleSet:
    """Turn every usable measurement of a store into a sample.

    Parameters
    ----------
    device : str or None
        One accelerator; all by default.
    chosen : callable or None
        Which of the records are taken; all by default. The others are not counted.
    may_be_none : bool
        There is something else to learn from.

    Raises
    ------
    TrainingError
        Nothing usable, unless there may be none.
    """
    graphs = dict(store.graphs())
    measurements = [
        one for one in store.iter_measurements(device) if chosen is None or chosen(one.step)
    ]
    specs = descriptions(one.step for one in measurements)
    samples: list[Sample] = []
    product_rates: list[float] = []
    dropped: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for measurement in measurements:
        reason = unusable(measurement.step, measurement.step.graph_hash in graphs)
        if reason:
            dropped[reason] += 1
            continue
        graph = graphs[measurement.step.graph_hash]
        sample = _sample(measurement, graph, specs[measurement.step.accelerator])
        product_rates.append(product_rate(measurement, product_flops(graph)))
        if measurement.operators and not sample.node_times_s:
            notes["operator times not used: too few joined"] += 1
        samples.append(sample)
    if not samples and not may_be_none:
        raise TrainingError(
            f"No usable measurement in {store.folder}{left_out(dropped)}. Profile some workloads "
            "first."
        )
    samples = _raised(samples, product_rates, notes)
    samples.sort(key=lambda s: (s.workload.accelerator.name, s.model, s.workload.content_hash))
    return SampleSet(samples=tuple(samples), dropped=dict(dropped), notes=dict(notes))


def left_out(dropped: Mapping[str, int]) -> str:
    """Say how many measurements are not used, and why.

    Examples
    --------
    >>> left_out({"too noisy": 2}), left_out({})
    (': 2 too noisy', ', which holds none')
    """
    counts = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    return f": {counts}" if counts else ", which holds none"


def _raised(
    samples: Sequence[Sample], product_rates: Sequence[float], notes: Counter[str]
) -> list[Sample]:
    """Put workloads on descriptions under which they are possible; count what stays too fast."""
    factors = missing_factors(
        [
            StepSample(
                step=Step.of(s.workload), step_time_s=s.step_time_s, model=s.model,
                family=s.family, source="profiles",
            )
            for s in samples
        ],
        product_rates,
    )  # fmt: skip
    found: list[Sample] = []
    for sample in samples:
        workload = sample.workload
        spec = raised_spec(workload.accelerator, factors[workload.accelerator.name])
        found.append(replace(sample, workload=replace(workload, accelerator=spec)))
        if sample.step_time_s < step_bound_s(found[-1].workload):
            notes["faster than the bound of the device"] += 1
    return found


def unusable(step: StepRecord, has_graph: bool) -> str:
    """Say why a measured step cannot be used; nothing when it can."""
    if not has_graph:
        return "graph is missing"
    if step.noisy and step.spread > MOST_SPREAD:
        return TOO_NOISY
    if step.compiler not in LEARNED_COMPILERS:
        return f"no predictor learns {step.compiler} yet"
    if step.execution:
        return "run in another way than its compiler's usual one"
    if not (np.isfinite(step.step_time_s) and step.step_time_s > 0):
        return "no positive time"
    return ""


def _sample(measurement: Measurement, graph: Graph, spec: AcceleratorSpec) -> Sample:
    step = measurement.step
    workload = Workload(
        graph=graph,
        accelerator=spec,
        **settings_of(step),
    )
    return Sample(
        workload=workload,
        step_time_s=step.step_time_s,
        family=step.family,
        node_times_s=_node_times(measurement, graph),
        model=step.model,
        spread=step.spread,
        weight=NOISY_WEIGHT if step.noisy else 1.0,
    )


def settings_of(record: StepRecord) -> dict[str, Any]:
    """Return how a measured step ran, by the names that workloads and steps have for it."""
    names = ("mode", "batch_size", "precision", "memory_format", "compiler")
    provenance = record.provenance
    settings = {name: getattr(record, name) for name in names}
    return {**settings, "software": provenance.software, "threads": provenance.threads}


def _node_times(measurement: Measurement, graph: Graph) -> dict[int, float]:
    if measurement.joined_share < LEAST_JOINED_SHARE:
        return {}
    return {
        record.node: record.time_s
        for record in measurement.operators
        if 0 <= record.node < len(graph.nodes)
        and graph.nodes[record.node].op == record.op
        and np.isfinite(record.time_s)
        and record.time_s >= 0
    }


def data_digest(samples: Sequence[Sample]) -> str:
    """Return a SHA-256 over what was learned from: workloads, times and operator times."""
    digest = hashlib.sha256()
    for line in sorted(_line(sample) for sample in samples):
        digest.update(line.encode())
    return digest.hexdigest()


def _line(sample: Sample) -> str:
    nodes = sorted(sample.node_times_s.items())
    facts = (sample.workload.content_hash, sample.step_time_s, sample.family, nodes)
    return repr(facts)
