"""What was fitted, on disk: the half of training that takes long, before it is calibrated.

Written once and read back to the bit, so that a version is the same whether its parts were
fitted just now or by a process that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS, EnsemblePredictor
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import check_samples, read_json, write_json
from perfmodel.predictors.serving.serving_parts import FALLBACK, JOINT, MEMBERS
from perfmodel.training.model_card import joint_facts
from perfmodel.training.samples.member_samples import LEAST_SAMPLES, learned_by_members
from perfmodel.training.tuning.tune import Tuned
from perfmodel.training.validation.held_out_folds import FOLDS

if TYPE_CHECKING:
    from perfmodel.predictors.joint.joint import JointPredictor

_PARTS = "parts"
_FACTS = "facts.json"
#: Samples whose answers are noted, to be compared with those of what is read back.
_GOLDEN = 32


@dataclass(frozen=True, kw_only=True)
class FittedParts:
    """Predictors that were fitted.

    Parameters
    ----------
    files : mapping of str to bytes
        By their paths in the artefact.
    answers_s : mapping of str to ndarray, shape (samples,)
        What each member said of families that it had not seen.
    joint : mapping or None
        Facts of the joint predictor, where there is one.
    golden_s : ndarray
        What the mix of members said of the first samples before it was written.
    tuning : mapping
        How settings were searched, by learner; empty where they were not.
    """

    files: Mapping[str, bytes]
    members: Mapping[str, Any]
    weights: Mapping[str, float]
    answers_s: Mapping[str, FloatArray]
    joint: Mapping[str, Any] | None
    golden_s: FloatArray
    tuning: Mapping[str, Any]


def fit_parts(
    samples: Sequence[Sample],
    folder: Path,
    *,
    members: Sequence[str] = DEFAULT_MEMBERS,
    folds: int = FOLDS,
    seed: int = 0,
    corpus: Sequence[StepSample] = (),
    operators: Sequence[StepSample] = (),
    joint_settings: Mapping[str, Any] | None = None,
    tuned: Tuned | None = None,
    progress: Progress | None = None,
    engine: TaskEngine | None = None,
) -> None:
    """Fit everything that a version consists of, and write it into an empty folder.

    :func:`read_parts` returns it. Every member is fitted ``folds`` times without a part of the
    families, for weights, intervals and scores, and once on everything.

    Parameters
    ----------
    members : sequence of str
        Predictors that the ensemble mixes.
    corpus : sequence of StepSample
        Steps of any devices. The joint predictor learns from them and answers for GPUs and for
        every device that ``samples`` do not hold; without them there is none, and devices that
        ``samples`` do not hold are answered from typical efficiencies.
    operators : sequence of StepSample
        Operators measured alone, which the networks of the joint predictor learn from as well.
    joint_settings : mapping or None
        Settings of :class:`~perfmodel.predictors.joint.joint.JointPredictor`; its own by default.
    tuned : Tuned or None
        Settings that were found for these very samples; those of ``joint_settings`` go before.
    engine : TaskEngine or None
        Where members are fitted; None: in this process. The bytes do not depend on it.

    Raises
    ------
    TrainingError
        Too few samples or families.
    """
    samples = learned_by_members(samples, jointly=bool(corpus))
    check_samples(samples, least=LEAST_SAMPLES)
    tuned = tuned or Tuned()
    chosen = {"seed": seed, "engine": engine, **tuned.joint, **(joint_settings or {})}
    joint = _joint(corpus, operators, chosen, progress) if corpus else None
    ensemble = EnsemblePredictor(
        members, folds, seed, progress, settings=tuned.members, engine=engine
    ).fit(samples)
    fitted = ensemble.predictors_ or {}
    parts = folder / _PARTS
    facts = {m: dict(p.save(parts / MEMBERS / m)) for m, p in fitted.items()}
    EfficiencyPredictor().fit(samples).save(parts / FALLBACK)
    if joint is not None:
        from perfmodel.predictors.joint.joint_store import save_joint

        save_joint(joint, parts / JOINT)
    golden = ensemble.predict([sample.workload for sample in samples[:_GOLDEN]])
    plain = {
        "members": facts,
        "weights": ensemble.weights_,
        "answers_s": {m: answers.tolist() for m, answers in ensemble.answers_.items()},
        "joint": None if joint is None else joint_facts(joint, corpus, operators),
        "golden_s": golden.tolist(),
        "tuning": dict(tuned.facts),
    }
    write_json(folder / _FACTS, plain)


def read_parts(folder: Path) -> FittedParts:
    """Return what :func:`fit_parts` wrote.

    Raises
    ------
    DamagedArtifactError
        Something else lies there.
    """
    plain = read_json(folder / _FACTS)
    parts = folder / _PARTS
    paths = sorted(path for path in parts.rglob("*") if path.is_file())
    try:
        return FittedParts(
            files={path.relative_to(parts).as_posix(): path.read_bytes() for path in paths},
            members=plain["members"],
            weights=plain["weights"],
            answers_s={m: np.array(a, dtype=np.float64) for m, a in plain["answers_s"].items()},
            joint=plain["joint"],
            golden_s=np.array(plain["golden_s"], dtype=np.float64),
            tuning=plain["tuning"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise DamagedArtifactError(f"{folder} holds no fitted parts: {error}.") from error


def _joint(
    corpus: Sequence[StepSample],
    operators: Sequence[StepSample],
    settings: Mapping[str, Any],
    progress: Progress | None,
) -> JointPredictor:
    # Imported here: it needs torch, which takes seconds to load.
    from perfmodel.predictors.joint.joint import JointPredictor

    predictor = JointPredictor(report=progress, **settings)
    predictor.fit(corpus, operators=operators)
    if progress is not None:
        progress(
            f"fitted the joint predictor on {len(corpus)} steps and {len(operators)} operators"
        )
    return predictor
