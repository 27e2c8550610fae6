"""What a manifest says about the joint predictor: data, devices, errors on held-out families."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor


def joint_facts(
    predictor: JointPredictor,
    samples: Sequence[StepSample],
    operators: Sequence[StepSample] = (),
) -> dict[str, Any]:
    """Return the facts of a joint predictor that has just been fitted on samples.

    The scores are those of members that had not seen the family of a step; they use nothing
    that is known of the job itself.
    """
    errors = np.abs(np.expm1(-predictor.residuals_))
    regimes = np.array([" ".join(regime) for regime in predictor.regimes_])
    return {
        "samples": len(samples),
        "sources": dict(sorted(Counter(sample.source for sample in samples).items())),
        "devices": dict(
            sorted(Counter(sample.step.accelerator.name for sample in samples).items())
        ),
        "families": len({sample.family for sample in samples}),
        "operators": dict(sorted(Counter(one.step.accelerator.name for one in operators).items())),
        "data_digest": corpus_digest((*samples, *operators)),
        "settings": {
            "folds": predictor.folds,
            "epochs": predictor.epochs,
            "rounds": predictor.rounds,
            "seed": predictor.seed,
        },
        "scores": {
            "split": "leave-family-out",
            "regimes": {
                regime: {
                    "samples": int(np.count_nonzero(regimes == regime)),
                    "mape": float(errors[regimes == regime].mean()),
                    "median_ape": float(np.median(errors[regimes == regime])),
                }
                for regime in sorted(set(regimes.tolist()))
            },
        },
    }


def corpus_digest(samples: Sequence[StepSample]) -> str:
    """Return a SHA-256 over what was learned from: graphs, settings, devices and times."""
    lines = sorted(
        repr(
            (
                sample.step.sketch.content_hash,
                sample.step.accelerator.name,
                sample.step.batch_size,
                sample.step.precision.value,
                sample.step.memory_format.value,
                sample.step.compiler.value,
                sorted(sample.step.software.items()),
                sample.step_time_s,
            )
        )
        for sample in samples
    )
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
    return digest.hexdigest()
