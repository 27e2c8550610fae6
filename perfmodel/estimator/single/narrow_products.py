"""Steps with products in 8 bits, which no model has learned: those in 16 bits, less what they save.

The program is that of 16 bits, and only the peak of its products is another. With the rooflines
of its nodes at either peak::

    t_8 = t_16 - sum_i (roofline_16,i - roofline_8,i)

What a step takes beyond them, launches and products short of their peak, stays as long as it is,
so that a step is never slower for a higher peak. No step shrinks by more than its products do.
Left out: what scaling and casting cost (docs/adr/0074).
"""

from __future__ import annotations

from dataclasses import replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Precision

_NARROW = (Precision.FP8, Precision.INT8)


def learned_step(prepared: PreparedJob, spec: AcceleratorSpec) -> Workload:
    """Return the step that a model is asked about: in 16 bits where products have fewer."""
    asked = prepared.on(spec)
    if asked.precision not in _NARROW:
        return asked
    wider = Precision.BF16 if spec.supports(Precision.BF16) else Precision.FP16
    return replace(asked, precision=spec.computed_as(wider))


def has_narrow_products(prepared: PreparedJob, spec: AcceleratorSpec) -> bool:
    """Tell whether products run at a peak that no model has learned."""
    return prepared.on(spec).precision in _NARROW


def with_narrow_products(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction
) -> Prediction:
    """Return the prediction of a step from that of the step that was learned.

    Parameters
    ----------
    prediction : Prediction
        Of :func:`learned_step`.
    """
    if not has_narrow_products(prepared, spec):
        return prediction
    at_8 = node_roofline(prepared.on(spec)).roofline_s
    at_16 = node_roofline(learned_step(prepared, spec)).roofline_s
    products = at_8 != at_16
    if not products.any():
        return prediction
    narrow_s, wide_s = float(at_8[products].sum()), float(at_16[products].sum())
    saved = 1.0 - (wide_s - narrow_s) / prediction.time_s
    factor = max(saved, min(1.0, narrow_s / wide_s))
    low_s, time_s, high_s = (
        factor * number for number in (prediction.low_s, prediction.time_s, prediction.high_s)
    )
    return replace(prediction, low_s=low_s, time_s=time_s, high_s=high_s)
