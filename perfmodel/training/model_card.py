"""What a version says of itself: facts for its manifest, and the card that is written from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.features.steps.step import StepSample
from perfmodel.training.provenance import corpus_digest

if TYPE_CHECKING:
    from perfmodel.predictors.joint.joint import JointPredictor

CARD = "CARD.md"

_LIMITS = """\
- Times of one step on one accelerator in steady state; no data loading, no first steps.
- A device without records is answered from its specification and the devices that resemble it;
  the interval says how far such answers were off. Accelerators other than GPUs and CPUs are
  answered from the roofline.
- Public tables name versions of PyTorch and CUDA, not of drivers; clocks and power limits of the
  measured cards are not known.
- The timm tables of PyTorch 2.9 measured reparameterisable models (RepVGG, MobileOne, FastViT,
  ...) after reparameterisation; such models are answered accordingly for that version only where
  the tables hold them.
"""


def model_card(manifest: Mapping[str, Any]) -> str:
    """Return the card of a model as Markdown.

    Parameters
    ----------
    manifest : mapping
        What training, and adapting after it, wrote about the model.
    """
    lines = [
        f"# {manifest['name']}",
        "",
        "This file is written by training; edit the code, not the file.",
        "",
        f"Trained at {manifest.get('trained_at', manifest['created_at'])}, seed "
        f"{manifest['seed']}, licence of the artefact {manifest['licence']}.",
        "",
        *_own_part(manifest),
        *_joint_part(manifest.get("joint")),
        *_adapted_part(manifest),
        "## Limits",
        "",
        _LIMITS,
    ]
    return "\n".join(lines)


def _own_part(manifest: Mapping[str, Any]) -> list[str]:
    data = manifest["data"]
    scores = manifest["scores"]["predictors"]
    rows = [
        f"| {name} | {_percent(score.get('mape'))} | {_percent(score.get('median_ape'))} |"
        for name, score in sorted(scores.items())
    ]
    return [
        "## Devices profiled by this project",
        "",
        f"{', '.join(manifest['devices'])}: {data['samples']} workloads of {data['models']} "
        f"models, data digest `{data['digest'][:16]}`.",
        "",
        f"Errors on the split {manifest['scores']['split']}:",
        "",
        "| predictor | MAPE | median |",
        "|---|---:|---:|",
        *rows,
        "",
    ]


def _joint_part(joint: Mapping[str, Any] | None) -> list[str]:
    if joint is None:
        return []
    sources = ", ".join(f"{name} ({count})" for name, count in joint["sources"].items())
    devices = ", ".join(f"{name} ({count})" for name, count in joint["devices"].items())
    regimes = [
        f"| {regime} | {s['samples']} | {_percent(s['mape'])} | {_percent(s['median_ape'])} |"
        for regime, s in joint["scores"]["regimes"].items()
    ]
    return [
        "## All other devices: the joint predictor",
        "",
        f"{joint['samples']} steps of {joint['families']} families from {sources}; data digest "
        f"`{joint['data_digest'][:16]}`.",
        "",
        f"Devices with records: {devices}.",
        "",
        "Errors of members that had not seen the family (what is known of the job itself not "
        "used):",
        "",
        "| regime | steps | MAPE | median |",
        "|---|---:|---:|---:|",
        *regimes,
        "",
    ]


def _adapted_part(manifest: Mapping[str, Any]) -> list[str]:
    adapted = manifest.get("adapted")
    if not adapted:
        return []
    rows = [
        f"| {device} | {facts['records']} | `{facts['digest'][:16]}` |"
        for device, facts in sorted(adapted.items())
    ]
    return [
        "## Devices it was adapted to",
        "",
        f"A few records of these devices correct the joint predictor (from "
        f"`{manifest['parent']}`, at {manifest['created_at']}); nothing was fitted again and all "
        "errors above are those of training. Only answers for these devices differ.",
        "",
        "| device | records | digest |",
        "|---|---:|---|",
        *rows,
        "",
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


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
            "folds": predictor.settings.folds,
            "epochs": predictor.settings.epochs,
            "rounds": predictor.settings.rounds,
            "learning_rate": predictor.settings.learning_rate,
            "shrinkage": predictor.settings.shrinkage,
            "depth": predictor.settings.depth,
            "seed": predictor.settings.seed,
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
