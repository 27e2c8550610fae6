"""Measured descriptions of devices: the best of each, raised to what its own records reached.

Each campaign measures the rates of its machine, and one that others use meanwhile reaches less than
it can: of several descriptions the highest of each rate counts. Where steps then ran faster than
the arithmetic of a description allows, it was taken on such a machine: all its measured rates are
raised by what is missing, since whoever took of one took of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.features.steps.step import StepSample
from perfmodel.features.steps.step_table import step_bounds_s, step_table
from perfmodel.records import StepRecord

#: Models that must be faster than a description allows before it is raised: one may be a mistake.
LEAST_MODELS = 3


def descriptions(records: Iterable[StepRecord]) -> dict[str, AcceleratorSpec]:
    """Return the best description of each device that records were taken on, by its name.

    The first one holds for all records of a device, with each rate that another one measured
    higher.

    Raises
    ------
    StoreError
        A record that describes no device.
    """
    found: dict[str, AcceleratorSpec] = {}
    for record in records:
        name = record.accelerator
        try:
            spec = spec_from_dict(record.provenance.accelerator)
        except InvalidInputError as error:
            raise StoreError(f"The records of {name!r} describe no device: {error}") from error
        best = found.setdefault(name, spec)
        if best.is_measured:
            found[name] = best.with_higher_rates(spec)
    return found


def raised(samples: Sequence[StepSample]) -> list[StepSample]:
    """Return samples on descriptions under which none of several models was impossibly fast."""
    factors = missing_factors(samples)
    specs = {
        s.step.accelerator.name: raised_spec(s.step.accelerator, factors[s.step.accelerator.name])
        for s in samples
    }
    return [
        replace(s, step=replace(s.step, accelerator=specs[s.step.accelerator.name]))
        for s in samples
    ]


def missing_factors(samples: Sequence[StepSample]) -> dict[str, float]:
    """Return, by device, how many times faster than stated it must be; at least 1.

    It is the ratio of bound (:func:`~perfmodel.features.steps.step_table.step_bounds_s`) and time
    that :data:`LEAST_MODELS` models reach.
    """
    ratios = _largest_ratios(samples)
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


def _largest_ratios(samples: Sequence[StepSample]) -> Mapping[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {s.step.accelerator.name: {} for s in samples}
    if not samples:
        return found
    bounds_s = step_bounds_s(step_table([sample.step for sample in samples]))
    for sample, bound_s in zip(samples, bounds_s.tolist(), strict=True):
        of_models = found[sample.step.accelerator.name]
        ratio = bound_s / sample.step_time_s
        of_models[sample.model] = max(ratio, of_models.get(sample.model, 0.0))
    return found


def _reached(of_models: Mapping[str, float]) -> float:
    if len(of_models) < LEAST_MODELS:
        return 1.0
    return float(np.sort(list(of_models.values()))[-LEAST_MODELS])
