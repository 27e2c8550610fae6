"""Measured descriptions of devices: the best of each, raised to what its own records reached.

Each campaign measures the rates of its machine, and one that others use meanwhile reaches less than
it can: of several descriptions the highest of each rate counts. Where matrix products within
steps then ran at a higher rate, or steps faster than their arithmetic allows, it was taken on such
a machine: all its measured rates are raised by what is missing, since whoever took of one took of
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import OP_CLASSES, node_table
from perfmodel.features.roofline import device_share
from perfmodel.features.steps.step import StepSample
from perfmodel.features.steps.step_table import step_bounds_s, step_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.records import Measurement, StepRecord

#: How many times as large a stated fact may be as that of the catalogue: datasheets round.
MOST_TIMES = 1.1
#: Models that must be faster than a description allows before it is raised: one may be a mistake.
LEAST_MODELS = 3
_PRODUCT = OP_CLASSES.index(OpClass.MATMUL)


def descriptions(records: Iterable[StepRecord]) -> dict[str, AcceleratorSpec]:
    """Return the best description of each device that records were taken on, by its name.

    The first one holds for all records of a device, with each rate that another one measured
    higher.

    Raises
    ------
    StoreError
        A record that describes no device, or states other facts of one than the catalogue does.
    """
    catalogue = {one.name: one for one in Catalog.default()}
    found: dict[str, AcceleratorSpec] = {}
    for record in records:
        name = record.accelerator
        try:
            spec = spec_from_dict(record.provenance.accelerator)
        except InvalidInputError as error:
            raise StoreError(f"The records of {name!r} describe no device: {error}") from error
        if name in catalogue and not spec.is_measured:
            _check_facts(name, _facts(spec), _facts(catalogue[name]))
        best = found.setdefault(name, spec)
        if best.is_measured:
            found[name] = best.with_higher_rates(spec)
    return found


def _check_facts(name: str, stated: Mapping[str, float], known: Mapping[str, float]) -> None:
    for fact in sorted(stated.keys() & known.keys()):
        if not 1 / MOST_TIMES <= stated[fact] / known[fact] <= MOST_TIMES:
            raise StoreError(
                f"The records of {name!r} state {fact} {stated[fact]:.4g}, the catalogue "
                f"{known[fact]:.4g}: they were taken on another device. Measure it under its own "
                "name, or leave them out."
            )


def _facts(spec: AcceleratorSpec) -> dict[str, float]:
    """Return what the maker of a device states of it, as far as it is known."""
    facts = {
        "memory_bytes": spec.memory_bytes,
        "bandwidth_bytes_per_s": spec.bandwidth_bytes_per_s,
        "core_count": spec.core_count,
        **{f"peak_flops.{rate}": flops for rate, flops in spec.peak_flops.items()},
    }
    return {fact: value for fact, value in facts.items() if value}


def product_flops(graph: Graph) -> FloatArray:
    """Return the FLOPs of each node that is a matrix product, 0 of all others, shape (nodes,)."""
    cost = node_table(graph).cost
    return np.where(cost.op_class == _PRODUCT, cost.flops, 0.0)


def product_rate(measurement: Measurement, flops: FloatArray) -> float:
    """Return the highest FLOP/s of a matrix product in a step; 0 where none was timed.

    Parameters
    ----------
    flops : ndarray, shape (nodes,)
        From :func:`product_flops` of its graph.
    """
    return max(
        (
            float(flops[one.node]) / one.time_s
            for one in measurement.operators
            if 0 <= one.node < len(flops) and one.time_s > 0
        ),
        default=0.0,
    )


def raised(samples: Sequence[StepSample], product_rates: Sequence[float]) -> list[StepSample]:
    """Return samples on descriptions under which none of several models was impossibly fast.

    Parameters
    ----------
    product_rates : sequence of float
        Of each sample, from :func:`product_rate`.
    """
    factors = missing_factors(samples, product_rates)
    specs = {
        s.step.accelerator.name: raised_spec(s.step.accelerator, factors[s.step.accelerator.name])
        for s in samples
    }
    return [
        replace(s, step=replace(s.step, accelerator=specs[s.step.accelerator.name]))
        for s in samples
    ]


def missing_factors(
    samples: Sequence[StepSample], product_rates: Sequence[float]
) -> dict[str, float]:
    """Return, by device, how many times faster than stated it must be; at least 1.

    Of a step it is the ratio of its bound and its time
    (:func:`~perfmodel.features.steps.step_table.step_bounds_s`), or that of the rate of its fastest
    product and the stated one, whichever is higher; of a device what :data:`LEAST_MODELS` models
    reach.
    """
    ratios = _largest_ratios(samples, product_rates)
    return {device: max(1.0, _reached(of_models)) for device, of_models in ratios.items()}


def raised_spec(spec: AcceleratorSpec, factor: float) -> AcceleratorSpec:
    """Return a description whose measured rates are higher by a factor; others stay as they are."""
    if factor <= 1.0 or not spec.is_measured:
        return spec
    said = f"raised {factor:.2f} times, to what its records reached"
    sources = dict(spec.sources)
    for rate in ("peak_flops", "bandwidth_bytes_per_s"):
        sources[rate] = f"{sources.get(rate, 'measured')}; {said}"
    return replace(
        spec,
        peak_flops=MappingProxyType({k: v * factor for k, v in spec.peak_flops.items()}),
        bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s * factor,
        sources=MappingProxyType(sources),
    )


def _largest_ratios(
    samples: Sequence[StepSample], product_rates: Sequence[float]
) -> Mapping[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {s.step.accelerator.name: {} for s in samples}
    if not samples:
        return found
    bounds_s = step_bounds_s(step_table([sample.step for sample in samples]))
    for sample, bound_s, rate in zip(samples, bounds_s.tolist(), product_rates, strict=True):
        spec = sample.step.accelerator
        stated = spec.flops_per_s(sample.step.precision) * device_share(spec, sample.step.threads)
        ratio = max(bound_s / sample.step_time_s, rate / stated)
        of_models = found[spec.name]
        of_models[sample.model] = max(ratio, of_models.get(sample.model, 0.0))
    return found


def _reached(of_models: Mapping[str, float]) -> float:
    if len(of_models) < LEAST_MODELS:
        return 1.0
    return float(np.sort(list(of_models.values()))[-LEAST_MODELS])
