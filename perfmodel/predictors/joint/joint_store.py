"""The joint predictor on disk: JSON for facts, safetensors for arrays, JSON boosters.

::

    joint.json                 mix, quantiles, devices, variances, labels
    arrays.safetensors         cells and residuals of the memory, shapes of the graphs
    member-<k>.net.*           weights and settings of a node network
    member-<k>.boost.*         trees with golden rows
    errors.*                   likewise, of how far off steps are
    untold.boost.*             likewise, compressed, of trees that are told nothing of a device
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.whole_step import UNTOLD_COLUMNS, WHOLE_COLUMNS
from perfmodel.predictors.boosting import Booster
from perfmodel.predictors.joint.device_beliefs import SETS, DeviceBeliefs, DeviceEffect
from perfmodel.predictors.joint.device_records import DeviceRecords
from perfmodel.predictors.joint.job_memory import JobMemory
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_intervals import GroupQuantiles
from perfmodel.predictors.joint.joint_members import Member
from perfmodel.predictors.joint.known_devices import HEARD_BY_RECORDS, KnownDevices
from perfmodel.predictors.joint.novelty import Novelty
from perfmodel.predictors.network_weights import UNREADABLE, load_arrays, save_arrays
from perfmodel.predictors.predictor_checks import read_json
from perfmodel.predictors.step_models.error_scale import ErrorScale
from perfmodel.predictors.step_models.mode_nets import ModeNets
from perfmodel.predictors.step_models.whole_boost import WholeBoost
from perfmodel.types import Framework

FACTS = "joint.json"
ARRAYS = "arrays.safetensors"
ERRORS = "errors"
UNTOLD = "untold.boost"

#: What an answer rests on beside the settings: files name it, so that those of code that did not
#: know one of them are refused and not misread.
_LAWS = (
    "power_limited", "attention_by_release", "recursion", "reached_rates", "jobs_by_kind",
    "cached_operands",
)  # fmt: skip


def save_joint(predictor: JointPredictor, folder: Path) -> None:
    """Write a fitted predictor into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, member in enumerate(predictor.members_):
        member.net.save(folder, f"member-{k}.net")
        member.boost.save(folder, f"member-{k}.boost")
    predictor.errors_.booster_.save(folder, ERRORS)
    predictor.untold_.save(folder, UNTOLD, packed=True)
    known, memory, novelty = predictor.known_, predictor.known_.memory, predictor.novelty_
    jobs = sorted(memory.cells_)
    arrays = {
        "cells": np.concatenate([memory.cells_[job][0] for job in jobs]).astype(np.int64),
        "residuals": _residuals(memory, jobs),
        "residuals_abroad": _residuals(known.abroad, jobs),
        "counts": np.array([len(memory.cells_[job][1]) for job in jobs], dtype=np.int64),
        **{f"novelty_{name}": value for name, value in novelty.arrays().items()},
    }
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    (folder / ARRAYS).write_bytes(save_arrays(plain))
    (folder / FACTS).write_bytes(facts_bytes(predictor))


def _residuals(memory: JobMemory, jobs: Sequence[str]) -> npt.NDArray[np.float32]:
    return np.concatenate([memory.cells_[job][1] for job in jobs]).astype(np.float32)


def facts_bytes(predictor: JointPredictor) -> bytes:
    """Return the content of :data:`FACTS`: all of a predictor that adapting it changes."""
    known, memory, beliefs = predictor.known_, predictor.known_.memory, predictor.known_.beliefs
    facts = {
        "settings": {**asdict(predictor.settings), **dict.fromkeys(_LAWS, True)},
        "members": len(predictor.members_),
        "training_shares": [
            member.net.training_share if member.net.training else None
            for member in predictor.members_
        ],
        "mix": [[list(regime), weight] for regime, weight in sorted(predictor.mix_.items())],
        "spreads": [[list(regime), s] for regime, s in sorted(predictor.spread_.items())],
        "quantiles": predictor.quantiles_.to_list(),
        "devices": list(known.trained),
        "makers": list(known.makers),
        "frameworks": [framework.value for framework in known.frameworks],
        "learned": [[list(group), n] for group, n in sorted(beliefs.learned.items())],
        "device_prior": beliefs.prior.tolist(),
        "effects": {
            name: {"mean": e.mean.tolist(), "covariance": e.covariance.tolist()}
            for name, e in sorted(beliefs.effects.items())
        },
        "records": dict(sorted(beliefs.records.items())),
        "measured": {name: r.to_dict() for name, r in sorted(known.records.items())},
        "jobs": [[job, predictor.fold_of_job_.get(job, -1)] for job in sorted(memory.cells_)],
        "job_variances": memory.variances_.tolist(),
        "noise_variance": memory.noise_,
        "job_variances_abroad": known.abroad.variances_.tolist(),
        "noise_variance_abroad": known.abroad.noise_,
        "labels": list(predictor.novelty_.labels_),
        "graph_jobs": _graph_jobs(predictor),
    }
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return (text + "\n").encode()


def _settings_of(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a predictor, which has to rest on today's laws."""
    if missing := [name for name in _LAWS if stated.get(name) is not True]:
        raise ValueError(f"it was fitted without the laws {', '.join(missing)}")
    return {name: value for name, value in stated.items() if name not in _LAWS}


def load_joint(folder: Path) -> JointPredictor:
    """Read back what :func:`save_joint` wrote.

    Raises
    ------
    DamagedArtifactError
        A file that is missing, cannot be read or does not fit the others.
    """
    path = folder / FACTS
    facts = read_json(path)
    try:
        arrays = load_arrays((folder / ARRAYS).read_bytes())
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("it holds numbers that are not finite")
        predictor = JointPredictor(**_settings_of(facts["settings"]))
        predictor.members_ = [
            Member(
                net=ModeNets.load(folder, f"member-{k}.net", training_share=share),
                boost=WholeBoost.load(folder, f"member-{k}.boost"),
            )
            for k, share in enumerate(facts["training_shares"])
        ]
        predictor.errors_ = ErrorScale(Booster.load(folder, ERRORS, WHOLE_COLUMNS))
        predictor.untold_ = WholeBoost.load(folder, UNTOLD, columns=UNTOLD_COLUMNS, packed=True)
        predictor.mix_ = {tuple(regime): float(weight) for regime, weight in facts["mix"]}
        predictor.spread_ = {tuple(regime): float(s) for regime, s in facts["spreads"]}
        predictor.quantiles_ = GroupQuantiles.from_list(facts["quantiles"])
        predictor.known_ = _known(facts, arrays)
        predictor.fold_of_job_ = {str(job): int(fold) for job, fold in facts["jobs"] if fold >= 0}
        shapes = {
            name.removeprefix("novelty_"): array
            for name, array in arrays.items()
            if name.startswith("novelty_")
        }
        predictor.novelty_ = Novelty.of(shapes, facts["labels"], _jobs_of_graphs(facts))
    except (*UNREADABLE, AttributeError) as error:
        raise DamagedArtifactError(
            f"The joint predictor in {folder} cannot be read: {error}. Train the model again."
        ) from error
    return predictor


def _known(facts: dict[str, Any], arrays: dict[str, Any]) -> KnownDevices:
    beliefs = _beliefs(facts)
    memory, abroad = _memory(facts, arrays), _memory(facts, arrays, "_abroad")
    return KnownDevices(
        trained=tuple(facts["devices"]),
        makers=tuple(map(str, facts["makers"])),
        frameworks=tuple(map(Framework, facts["frameworks"])),
        beliefs=beliefs,
        records=_records(facts, beliefs),
        memory=memory,
        abroad=abroad,
        halfway=memory.between(abroad, HEARD_BY_RECORDS),
    )


def _beliefs(facts: dict[str, Any]) -> DeviceBeliefs:
    prior = np.array(facts["device_prior"], dtype=np.float64)
    return DeviceBeliefs(
        prior,
        {tuple(group): int(n) for group, n in facts["learned"]},
        effects={str(name): _effect(e, len(prior)) for name, e in facts["effects"].items()},
        records={str(name): int(n) for name, n in facts["records"].items()},
    )


def _records(facts: dict[str, Any], beliefs: DeviceBeliefs) -> dict[str, DeviceRecords]:
    stored = {str(n): DeviceRecords.from_dict(r) for n, r in facts["measured"].items()}
    coefficients = SETS * len(beliefs.prior)
    for name, records in stored.items():
        if name not in beliefs.effects or records.features.shape[1] != coefficients:
            raise ValueError(f"its records of {name} do not fit what it knows of devices")
    return stored


def _effect(stored: dict[str, Any], effects: int) -> DeviceEffect:
    mean, covariance = np.array(stored["mean"]), np.array(stored["covariance"])
    if mean.shape != (SETS * effects,) or covariance.shape != (len(mean), len(mean)):
        raise ValueError("it holds effects of another size")
    return DeviceEffect(mean=mean, covariance=covariance)


def _graph_jobs(predictor: JointPredictor) -> list[int]:
    """Return the position of the job of each graph among all jobs."""
    position = {job: i for i, job in enumerate(sorted(predictor.known_.memory.cells_))}
    return [position[job] for job in predictor.novelty_.jobs_]


def _jobs_of_graphs(facts: dict[str, Any]) -> list[str]:
    """Return the job of each graph."""
    positions = facts["graph_jobs"]
    jobs = [str(job) for job, _ in facts["jobs"]]
    if len(positions) != len(facts["labels"]):
        raise ValueError("its graphs and their jobs do not fit together")
    if not all(0 <= position < len(jobs) for position in positions):
        raise ValueError("it names jobs that it does not hold")
    return [jobs[position] for position in positions]


def _memory(facts: dict[str, Any], arrays: dict[str, Any], kind: str = "") -> JobMemory:
    counts = arrays["counts"]
    jobs = [str(job) for job, _ in facts["jobs"]]
    if len(jobs) != len(counts) or int(counts.sum()) != len(arrays[f"residuals{kind}"]):
        raise ValueError("its jobs and cells do not fit together")
    memory = JobMemory()
    memory.variances_ = np.array(facts[f"job_variances{kind}"], dtype=np.float64)
    memory.noise_ = float(facts[f"noise_variance{kind}"])
    ends = np.cumsum(counts)
    residuals = arrays[f"residuals{kind}"].astype(np.float64)
    memory.cells_ = {
        job: (arrays["cells"][end - n : end], residuals[end - n : end])
        for job, end, n in zip(jobs, ends.tolist(), counts.tolist(), strict=True)
    }
    return memory
