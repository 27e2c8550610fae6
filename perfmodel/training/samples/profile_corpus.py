"""The stored profiles of this project as step samples, with sketches kept between runs."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.features.asked import Asked
from perfmodel.features.steps.sketch import SKETCH_VERSION, StepSketch, step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.ir import Graph
from perfmodel.records import StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.kept_sketches import sketch_folder
from perfmodel.training.samples.corpus import Corpus
from perfmodel.training.samples.raised_rates import (
    descriptions,
    product_flops,
    product_rate,
    raised,
)
from perfmodel.training.samples.samples import NOISY_WEIGHT, settings_of, unusable

SOURCE = "profiles"


def profile_corpus(
    store: ProfileStore,
    *,
    device: str | None = None,
    cache: Path | None = None,
    chosen: Callable[[StepRecord], bool] | None = None,
) -> Corpus:
    """Turn every usable step of a store into a sample.

    Parameters
    ----------
    device : str or None
        One accelerator; all by default.
    cache : Path or None
        Folder of kept sketches; None: :func:`.kept_sketches.sketch_folder`.
    chosen : callable or None
        As in :func:`~perfmodel.training.samples.samples.load_samples`.

    Returns
    -------
    Corpus
        Samples of the source ``"profiles"``, by accelerator, model and workload; steps without
        a graph, too noisy or without a positive time are counted as dropped. Descriptions of
        devices are those of :func:`.raised_rates.descriptions`, raised as
        :func:`.raised_rates.raised` says.
    """
    measured = [
        one for one in store.iter_measurements(device) if chosen is None or chosen(one.step)
    ]
    sketches = _sketches(
        store, [one.step.graph_hash for one in measured], SketchFiles(cache or sketch_folder())
    )
    dropped: Counter[str] = Counter()
    samples: list[StepSample] = []
    product_rates: list[float] = []
    measured.sort(key=lambda one: (one.step.accelerator, one.step.model, one.step.workload_hash))
    specs = descriptions(one.step for one in measured)
    for one in measured:
        record = one.step
        if reason := unusable(record, record.graph_hash in sketches):
            dropped[reason] += 1
        else:
            known = sketches[record.graph_hash]
            samples.append(_sample(record, specs[record.accelerator], known))
            product_rates.append(product_rate(one, known.product_flops))
    return Corpus(samples=tuple(raised(samples, product_rates)), dropped=dict(dropped))


def told_apart(samples: Sequence[StepSample]) -> tuple[list[StepSample], list[StepSample]]:
    """Return whole steps, and operators alone as those of public tables are learned from."""
    steps, operators = [], []
    for one in samples:
        if Asked.of_sketch(one.step.sketch) is Asked.OPERATOR:
            operators.append(replace(one, step=replace(one.step, alone=True)))
        else:
            steps.append(one)
    return steps, operators


@dataclass(frozen=True, kw_only=True, eq=False)
class _KeptGraph:
    """What is kept of a graph.

    Parameters
    ----------
    product_flops : ndarray, shape (nodes,)
        From :func:`.raised_rates.product_flops`.
    """

    sketch: StepSketch
    product_flops: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> _KeptGraph:
        return cls(sketch=step_sketch(graph), product_flops=product_flops(graph))

    def to_arrays(self) -> dict[str, Any]:
        return self.sketch.to_arrays() | {"product_flops": self.product_flops}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> _KeptGraph:
        """Read back what :meth:`to_arrays` gave; KeyError where something is missing."""
        return cls(sketch=StepSketch.from_arrays(arrays), product_flops=arrays["product_flops"])


def _sample(record: StepRecord, spec: AcceleratorSpec, graph: _KeptGraph) -> StepSample:
    return StepSample(
        step=Step(sketch=graph.sketch, accelerator=spec, **settings_of(record)),
        step_time_s=record.step_time_s,
        model=record.model,
        family=record.family,
        source=SOURCE,
        weight=NOISY_WEIGHT if record.noisy else 1.0,
    )


def _sketches(
    store: ProfileStore, hashes: Sequence[str], files: SketchFiles
) -> dict[str, _KeptGraph]:
    """Return what is kept of each graph; graphs are read only where one is missing."""
    found: dict[str, _KeptGraph] = {}
    for graph_hash in set(hashes):
        arrays = files.read(_key(graph_hash))
        # One from before all of it was kept is made again.
        with contextlib.suppress(KeyError):
            if arrays is not None:
                found[graph_hash] = _KeptGraph.from_arrays(arrays)
    missing = set(hashes) - found.keys()
    if not missing:
        return found
    for graph_hash, graph in store.graphs():
        if graph_hash in missing:
            found[graph_hash] = _KeptGraph.of(graph)
            files.write(_key(graph_hash), found[graph_hash].to_arrays())
    return found


def _key(graph_hash: str) -> str:
    return hashlib.sha256(f"graph:{graph_hash}:{SKETCH_VERSION}".encode()).hexdigest()[:32]
