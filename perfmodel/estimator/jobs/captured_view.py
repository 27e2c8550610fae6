"""Which program stands for a job: jobs that differ in no part of it share one capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.repeated_batches import RepeatedBatches
from perfmodel.graph.in_precision import in_precision, wider_types
from perfmodel.graph.job import Job
from perfmodel.types import Compiler, Mode, Precision

#: Precisions whose program is that of another: they change how units of a device compute. What
#: int8 cannot do, training, is refused by the capture, and so left to it.
_SAME_PROGRAM: Mapping[Precision, Precision] = MappingProxyType(
    {Precision.TF32: Precision.FP32, Precision.FP8: Precision.BF16}
)
_SAME_INFERENCE: Mapping[Precision, Precision] = MappingProxyType(
    {**_SAME_PROGRAM, Precision.INT8: Precision.BF16}
)

#: Said where a graph is asked for in another precision than it was captured in.
_OTHER_PRECISION_WARNING = (
    "The graph was captured in another precision than {precision}: it is answered as the same "
    "program on other types. Capture it in {precision} to have its very casts counted."
)

#: Said where a graph has products in types that nothing is known of.
_WIDER_WARNING = (
    "Products in {types} are answered as if they were fp32, for nothing was learned of such types. "
    "They take longer on most devices, many times as long on cards for games and inference."
)


def asked_in(step: CapturedStep, precision: Precision) -> CapturedStep:
    """Return the step of a graph that somebody brought as it is in the precision asked for."""
    graph = in_precision(step.graph, precision)
    said = []
    if graph is not step.graph:
        said.append(_OTHER_PRECISION_WARNING.format(precision=precision.value))
    if wider := wider_types(graph):
        said.append(_WIDER_WARNING.format(types=" and ".join(wider)))
    if not said:
        return step
    return CapturedStep(
        graph=graph,
        tokens_per_sample=step.tokens_per_sample,
        warnings=(*step.warnings, *said),
    )


def captured_view(job: Job) -> Job:
    """Return the job that is captured for a job: the same program, and the same for all alike.

    Compiler, versions of software and selective checkpointing are no part of a program, optimizer
    and checkpointing none of inference, some precisions have the program of another one, and of
    several micro-batches one is captured.

    Parameters
    ----------
    job : Job
        With a model.

    Examples
    --------
    >>> captured_view(Job(model="zoo/one", precision=Precision.TF32)) == Job(model="zoo/one")
    True
    """
    trains = job.mode is Mode.TRAINING
    same = _SAME_PROGRAM if trains else _SAME_INFERENCE
    view = replace(
        job,
        precision=same.get(job.precision, job.precision),
        compiler=Compiler.EAGER,
        software=MappingProxyType({}),
        selective_checkpointing=False,
        accumulation_steps=1,
    )
    return view if trains else replace(view, optimizer="sgd", activation_checkpointing=False)


def with_batches(captured: CapturedStep, job: Job) -> CapturedStep:
    """Return the step of all micro-batches of a job, of which one was captured."""
    if job.accumulation_steps == 1:
        return captured
    return replace(captured, repeated=RepeatedBatches(count=job.accumulation_steps))
