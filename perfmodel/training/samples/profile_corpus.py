"""The stored profiles of this project as step samples, with sketches kept between runs."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.asked import Asked
from perfmodel.features.steps.sketch import SKETCH_VERSION, StepSketch, step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.placement.memory.memory import peak_tensor_bytes
from perfmodel.records import StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.kept_sketches import sketch_folder
from perfmodel.training.samples.corpus import Corpus
from perfmodel.training.samples.raised_rates import raised
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
        devices are those that :func:`.raised_rates.raised` returns.
    """
    records = [one for one in store.steps(device) if chosen is None or chosen(one)]
    sketches = _sketches(
        store, [r.graph_hash for r in records], SketchFiles(cache or sketch_folder())
    )
    dropped: Counter[str] = Counter()
    specs: dict[str, AcceleratorSpec] = {}
    samples: list[StepSample] = []
    records.sort(key=lambda record: (record.accelerator, record.model, record.workload_hash))
    for record in records:
        if reason := unusable(record, record.graph_hash in sketches):
            dropped[reason] += 1
        else:
            # The first description of a device holds for all of its records.
            spec = specs.setdefault(
                record.accelerator, spec_from_dict(record.provenance.accelerator)
            )
            sketch, peak = sketches[record.graph_hash]
            samples.append(_sample(record, spec, sketch, peak))
    return Corpus(samples=tuple(raised(samples)), dropped=dict(dropped))


def told_apart(samples: Sequence[StepSample]) -> tuple[list[StepSample], list[StepSample]]:
    """Return whole steps, and operators alone as those of public tables are learned from."""
    steps, operators = [], []
    for one in samples:
        if Asked.of_sketch(one.step.sketch) is Asked.OPERATOR:
            operators.append(replace(one, step=replace(one.step, alone=True)))
        else:
            steps.append(one)
    return steps, operators


def _sample(
    record: StepRecord, spec: AcceleratorSpec, sketch: StepSketch, peak: float
) -> StepSample:
    return StepSample(
        step=Step(sketch=sketch, accelerator=spec, **settings_of(record)),
        step_time_s=record.step_time_s,
        model=record.model,
        family=record.family,
        source=SOURCE,
        spread=record.spread,
        memory_bytes=record.peak_memory_bytes,
        peak_tensor_bytes=peak,
        weight=NOISY_WEIGHT if record.noisy else 1.0,
    )


def _sketches(
    store: ProfileStore, hashes: Sequence[str], files: SketchFiles
) -> dict[str, tuple[StepSketch, float]]:
    """Return sketch and peak of memory by graph; graphs are read only where one is missing."""
    found: dict[str, tuple[StepSketch, float]] = {}
    for graph_hash in set(hashes):
        arrays = files.read(_key(graph_hash))
        # One from before what is known of recurrent layers is made again.
        with contextlib.suppress(KeyError):
            if arrays is not None:
                peak = float(arrays["peak_tensor_bytes"])
                found[graph_hash] = (StepSketch.from_arrays(arrays), peak)
    missing = set(hashes) - found.keys()
    if not missing:
        return found
    for graph_hash, graph in store.graphs():
        if graph_hash in missing:
            sketch, peak = step_sketch(graph), peak_tensor_bytes(graph)
            files.write(
                _key(graph_hash), sketch.to_arrays() | {"peak_tensor_bytes": np.array(peak)}
            )
            found[graph_hash] = (sketch, peak)
    return found


def _key(graph_hash: str) -> str:
    return hashlib.sha256(f"graph:{graph_hash}:{SKETCH_VERSION}".encode()).hexdigest()[:32]
