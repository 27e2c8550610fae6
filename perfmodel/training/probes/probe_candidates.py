"""Workloads that a probe plan chooses from: models of many kinds, small and large batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.features.steps.step import Step
from perfmodel.graph.job import Job
from perfmodel.placement.memory.memory import memory_estimate
from perfmodel.predictors.folds import Progress
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_sketches import kept_sketches
from perfmodel.training.probes.device_shares import DeviceShares
from perfmodel.training.probes.measuring_time import measuring_s
from perfmodel.training.probes.probe_plan import (
    ProbeChooser,
    expected_variance,
    noise_with_misfit,
    prior_of,
    probe_order,
)
from perfmodel.types import Mode, Precision

#: One model of each kind of architecture that images are classified with, and language models.
MODELS = (
    "timm/resnet50", "timm/resnet152", "timm/vgg16", "timm/densenet121", "timm/efficientnet_b0",
    "timm/mobilenetv3_large_100", "timm/efficientnetv2_rw_m", "timm/regnety_032",
    "timm/convnext_tiny", "timm/convnext_large", "timm/vit_tiny_patch16_224",
    "timm/vit_base_patch16_224", "timm/swin_tiny_patch4_window7_224", "timm/maxvit_tiny_rw_224",
    "timm/mixer_b16_224", "timm/poolformer_s12", "timm/inception_v3", "timm/cspdarknet53",
    "zoo/bert-base-squad", "zoo/gnmt", "zoo/ncf",
)  # fmt: skip
_BATCHES = {
    ("gpu", Mode.INFERENCE): (1, 64, 256),
    ("gpu", Mode.TRAINING): (8, 64),
    ("cpu", Mode.INFERENCE): (1, 16),
    ("cpu", Mode.TRAINING): (8,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One workload to measure.

    Parameters
    ----------
    expected_error : float
        Standard deviation of the log time of a candidate once this and those before it have been
        measured; close to the relative error to be expected.
    measuring_s : float
        Order of magnitude of the seconds that measuring it takes.
    """

    job: Job
    expected_error: float
    measuring_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbePlan:
    """What to measure on a device, and what it is worth.

    Parameters
    ----------
    error_before : float
        Expected error without any of them.
    candidates : int
        Workloads that were compared.
    """

    accelerator: str
    probes: tuple[Probe, ...]
    error_before: float
    candidates: int


def candidate_jobs(spec: AcceleratorSpec, modes: Sequence[Mode]) -> list[Job]:
    """Return jobs that could be measured on an accelerator.

    Returns
    -------
    list of Job
        In half precision where the accelerator has a rate for it, CPUs aside.
    """
    kind = "cpu" if spec.kind == "cpu" else "gpu"
    halves = [p for p in (Precision.AMP_FP16, Precision.AMP_BF16) if spec.supports(p)]
    precision = halves[0] if halves and kind == "gpu" else Precision.FP32
    return [
        Job(model=model, mode=mode, batch_size=batch, precision=precision)
        for mode in modes
        for model in MODELS
        for batch in _BATCHES[(kind, mode)]
    ]


def plan_probes(
    spec: AcceleratorSpec,
    k: int,
    *,
    jobs: Sequence[Job] | None = None,
    modes: Sequence[Mode] = (Mode.INFERENCE, Mode.TRAINING),
    chooser: ProbeChooser | None = None,
    progress: Progress | None = None,
) -> ProbePlan:
    """Return the k workloads whose measurement would shrink the error on a device most a second.

    Parameters
    ----------
    jobs : sequence of Job, optional
        What can be measured and will be asked; :func:`candidate_jobs` by default.
    modes : sequence of Mode
        Of the default candidates.
    chooser : ProbeChooser, optional
        Says what is particular about a device; shares of kinds of work by default.

    Raises
    ------
    InvalidInputError
        Nothing fits into the memory of the device, or k below one.
    """
    chooser = chooser or DeviceShares()
    found = list(candidate_jobs(spec, modes) if jobs is None else jobs)
    fitting = _fitting(found, spec, progress)
    steps = [step for _, step in fitting]
    features = np.asarray(chooser.device_features(steps))
    prior, noise = prior_of(chooser, spec.name), noise_with_misfit(features, chooser.noise_)
    cost_s = measuring_s(steps)
    order = probe_order(features, prior, noise, k, cost_s=cost_s)

    def error(count: int) -> float:
        measured = order[:count]
        left = expected_variance(features[measured], prior, noise[measured], features)
        return float(np.sqrt(left + chooser.noise_**2))

    return ProbePlan(
        accelerator=spec.name,
        probes=tuple(
            Probe(
                job=fitting[position][0],
                expected_error=error(number),
                measuring_s=float(cost_s[position]),
            )
            for number, position in enumerate(order, start=1)
        ),
        error_before=error(0),
        candidates=len(fitting),
    )


def _fitting(
    jobs: Sequence[Job], spec: AcceleratorSpec, progress: Progress | None
) -> list[tuple[Job, Step]]:
    """Return the jobs that can be captured and that fit into the memory of a device; some do."""
    by_key = {capture_key(job): job for job in jobs}
    kept, _ = kept_sketches(by_key, progress=progress)
    fitting = [
        (job, Step.of_job(job, kept[key].sketch, spec))
        for key, job in by_key.items()
        if key in kept and memory_estimate(kept[key].peak_tensor_bytes, spec).fits
    ]
    if not fitting:
        raise InvalidInputError(
            f"None of {len(jobs)} candidate workloads can be captured and fits into the memory "
            f"of {spec.name}; name smaller ones."
        )
    return fitting
