"""A trained artefact, loaded and ready to answer.

Needs numpy, XGBoost and safetensors. Where a member is absent or damaged, the rest answers with
renormalised weights, with the wider interval that the rest alone has earned on held-out families,
and says so.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.asked import Asked
from perfmodel.features.roofline import PROGRAM_BASIS, is_program
from perfmodel.features.steps.step import Step
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import Accelerators, StepExplanation
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.predictors.members.ensemble import mix, read_weights
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.predictor import Predictor
from perfmodel.predictors.predictor_checks import not_below_bound, read_json
from perfmodel.predictors.serving.distance import Nearness, TrainingDistance
from perfmodel.predictors.serving.intervals import HalfWidth, HeldOut
from perfmodel.predictors.serving.serving_explained import (
    explain_efficiencies,
    explain_members,
    near_samples,
)
from perfmodel.predictors.serving.serving_parts import (
    FALLBACK,
    LEARNED,
    MEASURED,
    SERVING,
    load_joint_part,
    load_members,
    read_adapted,
    read_devices,
    read_measured,
)
from perfmodel.store.artifacts import read_artifact
from perfmodel.types import Basis, Framework

if TYPE_CHECKING:
    from perfmodel.predictors.joint.joint import JointPredictor

#: Kinds of device that the joint predictor has learned about.
JOINT_KINDS = ("gpu", "cpu")

#: Answers that are remembered, by workload.
_REMEMBERED = 65_536
#: Relative half-width of the interval around a measured time without a recorded spread.
_LEAST_MEASURED_SPREAD = 0.02


class ServingModel:
    """Answers step times from a trained artefact.

    Made by :meth:`load`; safe to share between threads that only read.

    Attributes
    ----------
    version : str
        ``"<name>/<version>"``.
    manifest : mapping
        What training wrote: scores, data digest, library versions.
    devices : mapping of str to AcceleratorSpec
        Devices that were profiled, as they were measured; members answer for those that the
        manifest names.
    absent : mapping of str to str
        Members that do not answer, with the reason.
    adapted : mapping of str to AcceleratorSpec
        Devices that the joint predictor was adapted to, as they were measured.
    """

    def __init__(
        self,
        *,
        version: str,
        manifest: Mapping[str, Any],
        devices: Mapping[str, AcceleratorSpec],
        members: Mapping[str, Predictor],
        weights: Mapping[str, float],
        absent: Mapping[str, str],
        held_out: HeldOut,
        distance: TrainingDistance,
        fallback: EfficiencyPredictor,
        measured: Mapping[str, tuple[float, float]],
        joint: JointPredictor | None = None,
        adapted: Mapping[str, AcceleratorSpec] | None = None,
    ) -> None:
        self.version = version
        self.manifest = manifest
        self.devices = devices
        self._answered = frozenset(manifest["devices"])
        self.absent = absent
        self.adapted = adapted or {}
        self._members = members
        self._all_weights = weights
        self._weights = _renormalised(weights, tuple(members))
        self._intervals = held_out.intervals(self._weights) if members else None
        self._full = held_out.intervals(weights)
        self._held_out = held_out
        self._distance = distance
        self._fallback = fallback
        self._measured = measured
        self._joint = joint
        self._remembered: OrderedDict[tuple[Any, ...], Prediction] = OrderedDict()

    @classmethod
    def load(cls, folder: Path, *, without: Collection[str] = ()) -> ServingModel:
        """Load a version of a model, leaving out members that are damaged or lack a library.

        Parameters
        ----------
        folder : Path
            ``models/<name>/<version>``.
        without : collection of str
            Members not to load.

        Raises
        ------
        DamagedArtifactError
            The manifest or a file that all members share is damaged, or no member is left.
        """
        artifact = read_artifact(Path(folder))
        for shared in (SERVING, MEASURED, LEARNED, f"{FALLBACK}/"):
            artifact.check(shared)
        path = artifact.folder / SERVING
        state = read_json(path)
        weights = read_weights(state.get("weights"), path)
        members, absent = load_members(artifact, weights, without)
        joint = load_joint_part(artifact, absent, without)
        if not members:
            reasons = "; ".join(f"{m}: {reason}" for m, reason in absent.items())
            raise DamagedArtifactError(f"No member of {artifact.name} can answer ({reasons}).")
        return cls(
            version=artifact.name,
            manifest=artifact.manifest,
            devices=read_devices(state.get("devices"), path),
            members=members,
            weights=weights,
            absent=absent,
            held_out=HeldOut.from_dict(state.get("held_out"), path),
            distance=TrainingDistance.from_dict(state.get("distance"), path),
            fallback=EfficiencyPredictor.load(artifact.folder / FALLBACK),
            measured=read_measured(artifact.folder / MEASURED),
            joint=joint,
            adapted=read_adapted(artifact) if joint is not None else {},
        )

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members that answer."""
        return tuple(self._members)

    @property
    def joint(self) -> JointPredictor | None:
        """The predictor for devices without members of their own; None where there is none."""
        return self._joint

    def as_if_unseen(self) -> ServingModel:
        """Return a model whose joint predictor answers as if it had learned from no job asked."""
        strange = copy.copy(self)
        strange._joint = self._joint and self._joint.as_if_unseen()
        strange._remembered = OrderedDict()
        return strange

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        """Return the step time of each workload, in order; equal ones are computed once."""
        keys = [_key(workload) for workload in workloads]
        answers: dict[tuple[Any, ...], Prediction] = {}
        missing: dict[tuple[Any, ...], Workload] = {}
        for key, workload in zip(keys, workloads, strict=True):
            known = self._remembered.get(key)
            if known is None:
                missing.setdefault(key, workload)
            else:
                answers[key] = known
        if missing:
            fresh = self._answer(list(missing.values()))
            for key, prediction in zip(missing, fresh, strict=True):
                answers[key] = self._remembered[key] = prediction
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return [answers[key] for key in keys]

    def explain(self, workload: Workload, accelerators: Accelerators) -> StepExplanation:
        """Return how the answer for a workload came about.

        Parameters
        ----------
        accelerators : callable
            Returns an accelerator by its name, or None; near points were measured on some.
        """
        (prediction,) = self.predict([workload])
        known = self._as_measured(workload)
        who = self._who_answers(known)
        if who == "joint" and self._joint is not None:
            from perfmodel.predictors.joint.joint_explained import explain_jointly

            return explain_jointly(self._joint, known, accelerators)
        if who == "own":
            found = self._explain_members(known, prediction.time_s)
            if found is not None:
                return found
        return explain_efficiencies(self._fallback, known, prediction.time_s)

    def _explain_members(self, workload: Workload, answer_s: float) -> StepExplanation | None:
        heaviest = sorted(self._members, key=lambda m: -self._weights[m])
        return explain_members(
            {m: self._members[m] for m in heaviest},
            workload,
            mixed_s=float(self.mixed([workload])[0]),
            answer_s=answer_s,
            nearest=near_samples(self._distance, self._held_out, self._weights, workload),
        )

    def _answer(self, workloads: list[Workload]) -> list[Prediction]:
        known = [self._as_measured(workload) for workload in workloads]
        results: list[Prediction | None] = [None] * len(known)
        places: dict[str, list[int]] = {"own": [], "joint": [], "analytical": []}
        for i, workload in enumerate(known):
            places[self._who_answers(workload)].append(i)
        for positions, answer in (
            (places["own"], self._learned),
            (places["joint"], self._jointly),
            (places["analytical"], self._analytical),
        ):
            chosen = [known[i] for i in positions]
            if chosen:
                for position, prediction in zip(positions, answer(chosen), strict=True):
                    results[position] = prediction
        return [prediction for prediction in results if prediction is not None]

    def _who_answers(self, workload: Workload) -> str:
        spec = workload.accelerator
        # Members learned from profiles, all of which are of PyTorch.
        of_profiles = Framework.of(workload.software) is Framework.PYTORCH
        if spec.name in self._answered and of_profiles:
            return "own"
        jointly = self._joint is not None and spec.kind in JOINT_KINDS
        return "joint" if jointly else "analytical"

    def answers_jointly(self, spec: AcceleratorSpec) -> bool:
        """Return whether the joint predictor answers for a device, not members of its own."""
        known = self._joint is not None and spec.kind in JOINT_KINDS
        return known and spec.name not in self._answered

    def _jointly(self, workloads: list[Workload]) -> list[Prediction]:
        assert self._joint is not None
        found = self._joint.predict([Step.of(workload) for workload in workloads])
        return [replace(prediction, model_version=self.version) for prediction in found]

    def _as_measured(self, workload: Workload) -> Workload:
        """Put the device as it was when it was measured in the place of its namesake."""
        name = workload.accelerator.name
        spec = self.devices.get(name) or self.adapted.get(name)
        if spec is None or spec is workload.accelerator:
            return workload
        return replace(workload, accelerator=spec)

    def _learned(self, workloads: list[Workload]) -> list[Prediction]:
        times = self.mixed(workloads)
        places = self._distance.measure(workloads)
        return [
            self._one(workload, float(time_s), place)
            for workload, time_s, place in zip(workloads, times, places, strict=True)
        ]

    def mixed(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return what the mix of members says of workloads, seconds, whatever was measured."""
        answers = np.stack([p.predict(workloads) for p in self._members.values()], axis=1)
        return not_below_bound(mix(answers, np.array(list(self._weights.values()))), workloads)

    def _one(self, workload: Workload, time_s: float, place: Nearness) -> Prediction:
        measured = self._measured.get(workload.content_hash)
        if measured is not None:
            return self._from_measurement(*measured, place)
        width = self._half_width(workload, outside=place.outside)
        return self._prediction(
            time_s,
            (float(np.exp(-width.log_half)), float(np.exp(width.log_half))),
            basis=Basis.EXTRAPOLATED if place.outside else Basis.INTERPOLATED,
            out_of_distribution=place.outside,
            nearest=place.nearest,
            warnings=(*self._absence(), *width.warnings),
        )

    def _prediction(self, time_s: float, ends: tuple[float, float], **facts: Any) -> Prediction:
        """Return an answer; ``ends`` are those of the interval over it."""
        return Prediction(
            time_s=time_s,
            low_s=time_s * ends[0],
            high_s=time_s * ends[1],
            coverage=self._full.coverage,
            model_version=self.version,
            **facts,
        )

    def _from_measurement(self, time_s: float, spread: float, place: Nearness) -> Prediction:
        half = max(spread, 2 * _LEAST_MEASURED_SPREAD) / 2
        return Prediction(
            time_s=time_s,
            low_s=time_s / (1.0 + half),
            high_s=time_s * (1.0 + half),
            coverage=self._full.coverage,
            basis=Basis.MEASURED,
            out_of_distribution=False,
            nearest=place.nearest,
            model_version=self.version,
        )

    def _half_width(self, workload: Workload, *, outside: bool) -> HalfWidth:
        """Interval of the members that answer, never narrower than that of all of them."""
        assert self._intervals is not None
        group = workload.accelerator.name, Asked.of(workload.graph)
        width = self._intervals.half_width(*group, outside=outside)
        full = self._full.half_width(*group, outside=outside)
        return replace(width, log_half=max(width.log_half, full.log_half))

    def _absence(self) -> tuple[str, ...]:
        lost = [m for m in self.absent if self._all_weights.get(m, 0.0) > 0]
        if not lost:
            return ()
        listed = ", ".join(f"{member} ({self.absent[member]})" for member in lost)
        return (f"Members that did not answer: {listed}",)

    def _analytical(self, workloads: list[Workload]) -> list[Prediction]:
        times = self._fallback.predict(workloads)
        return [
            self._one_analytical(workload, float(time_s))
            for workload, time_s in zip(workloads, times, strict=True)
        ]

    def _one_analytical(self, workload: Workload, time_s: float) -> Prediction:
        spec = workload.accelerator
        width = self._full.half_width(spec.name, Asked.of(workload.graph))
        if self._fallback.knows(spec.kind):
            rests = f"efficiencies learned on other {spec.kind} devices"
        elif is_program(workload):
            rests = PROGRAM_BASIS
        else:
            rests = f"assumed efficiencies, for no {spec.kind} device was measured"
        return self._prediction(
            time_s,
            (float(np.exp(-width.log_half)), float(np.exp(width.log_half))),
            basis=Basis.ANALYTICAL,
            out_of_distribution=True,
            nearest=(),
            warnings=(f"Answered from the roofline with {rests}.", *width.warnings),
        )


def _key(workload: Workload) -> tuple[Any, ...]:
    """Return everything that an answer depends on."""
    spec = workload.accelerator
    return (
        workload.graph.content_hash,
        workload.mode,
        workload.batch_size,
        workload.precision,
        workload.memory_format,
        workload.compiler,
        workload.threads,
        tuple(sorted(workload.software.items())),
        spec.name,
        spec.bandwidth_bytes_per_s,
        spec.cache_bytes,
        spec.core_count,
        tuple(sorted(spec.peak_flops.items())),
    )


def _renormalised(weights: Mapping[str, float], members: tuple[str, ...]) -> dict[str, float]:
    left = {member: weights.get(member, 0.0) for member in members}
    total = sum(left.values())
    if total <= 0:
        return dict.fromkeys(members, 1.0 / max(1, len(members)))
    return {member: weight / total for member, weight in left.items()}
