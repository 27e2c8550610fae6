"""Folds that families have had before.

Two versions are compared on families that the members which answer had not seen. What else such a
member has not seen decides much of its error, so a family stays in the fold in which the version
that serves left it out: the difference is then one of versions, and none of folds.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence

from perfmodel.features.steps.sketch import architecture_key
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.job_memory import architecture_of
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.registry.model_registry import ModelRegistry

_FACTS = f"{JOINT}/joint.json"


def kept_folds(registry: ModelRegistry, name: str, samples: Sequence[StepSample]) -> dict[str, int]:
    """Return the fold of every family that the version which serves has learned from.

    Returns
    -------
    dict of str to int
        Empty where no version serves, or one without a predictor for all devices.
    """
    serving = registry.serving(name)
    content = None if serving is None else registry.files.read(f"{name}/{serving}/{_FACTS}")
    return {} if content is None else families_in(content, samples)


def families_in(content: bytes, samples: Sequence[StepSample]) -> dict[str, int]:
    """Return the fold of each family, by the folds of its jobs in the facts of a predictor.

    Parameters
    ----------
    content : bytes
        Of the file ``joint.json``; one that is damaged names no fold.
    """
    try:
        jobs = json.loads(content)["jobs"]
        fold_of = {architecture_of(str(job)): int(fold) for job, fold in jobs if fold >= 0}
    except (KeyError, TypeError, ValueError):
        return {}
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for one in samples:
        fold = fold_of.get(architecture_key(one.step.sketch, one.step.batch_size))
        if fold is not None:
            votes[one.family][fold] += 1
    return {family: vote.most_common(1)[0][0] for family, vote in votes.items()}
