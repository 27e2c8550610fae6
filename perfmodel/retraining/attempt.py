"""One attempt at a retraining: does what no earlier one has finished, phase after phase."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import DamagedArtifactError, OvertakenError, TrainingError
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State
from perfmodel.retraining.data.learning_data import LearningData, read_learning_data
from perfmodel.retraining.data.observed_cells import cells_of
from perfmodel.retraining.data.snapshot import read_observed, take_snapshot
from perfmodel.retraining.judging.gathering import evidence_from, gather
from perfmodel.retraining.publishing import (
    Verdict,
    is_published,
    is_settled,
    settle,
    verdict_from,
    why_of,
)
from perfmodel.retraining.quick_version import quick_version
from perfmodel.retraining.run_folder import PHASES, Phase, RunFolder
from perfmodel.retraining.settings import parse_settings
from perfmodel.retraining.workplace import Workplace
from perfmodel.store.retraining import ObservedDataStore, RetrainingStore
from perfmodel.store.retraining.retraining_records import Retraining, RetrainingState
from perfmodel.store.retraining.tuning_journal import TuningJournalStore
from perfmodel.store.state.database import Database
from perfmodel.training.fitted_parts import fit_parts, read_parts
from perfmodel.training.gate.evidence import Margins
from perfmodel.training.gate.gate import decide
from perfmodel.training.kept_folds import kept_folds
from perfmodel.training.train import calibrate
from perfmodel.training.tuning.tune import Tuned, tune

#: How often a retraining begins again because what it rests on was taken back, or because another
#: version came to serve.
MOST_ROUNDS = 3
_EVIDENCE = "evidence.json"

#: Is told the phase and what happens in it.
Tell = Callable[[Phase, str], None]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What came of a retraining."""

    state: RetrainingState
    version: str | None = None
    verdict: Verdict | None = None
    reason: str | None = None


class Attempt:
    """Does what is left of a retraining.

    Killed at any moment, the next attempt goes on from the last finished phase, on the same host or
    on one that shares the folder of runs; on any other it begins anew, unless its version was
    published already, whose verdict then takes effect.

    Parameters
    ----------
    registry : ModelRegistry
        For changes in the name of the retraining.

    Raises
    ------
    PerfModelError
        In :meth:`run`: it cannot be done, as it says.
    OvertakenError
        Somebody else has the retraining by now, or it was cancelled.
    """

    def __init__(
        self,
        claim: Retraining,
        place: Workplace,
        database: Database,
        registry: ModelRegistry,
        tell: Tell,
    ) -> None:
        self._claim = claim
        self._place = place
        self._database = database
        self._registry = registry
        self._say = tell
        self._settings = parse_settings(claim.settings)
        self._folder = RunFolder(place.folder / claim.name)
        self._store = RetrainingStore(database.connections)
        self._observed = ObservedDataStore(database.connections)
        self._phase = Phase.SNAPSHOT
        self._done: Mapping[Phase, Callable[[Path], Mapping[str, Any]]] = {
            Phase.SNAPSHOT: self._snapshot,
            Phase.CAPTURE: self._capture,
            Phase.FIT: self._fit,
            Phase.CALIBRATE: self._calibrate,
            Phase.JUDGE: self._judge,
            Phase.DECIDE: self._decide,
            Phase.PUBLISH: self._publish,
        }

    def run(self) -> Ending:
        """Do what is left, and return what came of all of it."""
        elsewhere = self._decided_elsewhere()
        if elsewhere is not None:
            return elsewhere
        for _ in range(MOST_ROUNDS):
            again = self._round()
            if again is None:
                return self._ending()
            first, reason = again
            self._tell(f"begins again with {first.value}: {reason}")
            self._keep_decision(None, None)
            self._folder.forget_from(first)
            self.__dict__.pop("_data", None)
        return Ending(
            state=RetrainingState.REFUSED,
            reason=f"It was begun {MOST_ROUNDS} times, the last time in vain: {reason}",
        )

    def _round(self) -> tuple[Phase, str] | None:
        """Do every phase that is left; return the one to go back to, and why, if there is one."""
        for phase in PHASES:
            self._phase = phase
            if self._folder.result(phase) is not None:
                continue
            if phase is Phase.PUBLISH:
                again = self._to_do_again()
                if again is not None:
                    return again
            self._tell("begins")
            result = self._done[phase](self._folder.begin(phase))
            self._folder.finish(phase, result)
            self._tell("is finished")
        return None

    # -- phases ---------------------------------------------------------------------------------

    def _snapshot(self, folder: Path) -> Mapping[str, Any]:
        sources = self._place.sources
        if self._settings.quick:
            # They are large, and what was measured since the last fit is not among them.
            sources = replace(sources, data=None)
        return take_snapshot(folder, sources, self._settings, self._observed, self._tell)

    def _capture(self, folder: Path) -> Mapping[str, Any]:
        # What runs captures is needed by this phase alone: later on every sketch is kept.
        with self._place.opened_engine() as engine:
            data = self._data = self._read_data(engine)
        return {
            "samples": len(data.samples),
            "steps": len(data.corpus),
            "operators": len(data.operators),
            "kept_back": len(data.kept_back) + len(data.kept_back_steps),
            "observed": len(data.newest),
            "dropped": dict(data.dropped),
        }

    def _fit(self, folder: Path) -> Mapping[str, Any]:
        data, settings = self._data, self._settings
        if settings.quick:
            return {"from": self._serving_into(folder)}
        with self._place.opened_engine() as engine:
            tuned = self._tuned(data, engine) if settings.tune else None
            fit_parts(
                data.samples,
                folder,
                members=settings.members or DEFAULT_MEMBERS,
                folds=settings.folds,
                seed=settings.seed,
                corpus=data.corpus,
                operators=data.operators,
                joint_settings={
                    "known_folds": kept_folds(self._registry, self._claim.model, data.corpus),
                    **settings.joint,
                },
                progress=self._tell,
                engine=engine,
                tuned=tuned,
            )
        return {}

    def _tuned(self, data: LearningData, engine: TaskEngine) -> Tuned:
        """Search settings; what was tried is in the database, whoever was killed since."""
        return tune(
            data.samples,
            TuningJournalStore(self._database.connections),
            trials=self._settings.tune,
            seed=self._settings.seed,
            members=self._settings.members or DEFAULT_MEMBERS,
            corpus=data.corpus,
            engine=engine,
            progress=self._tell,
        )

    def _calibrate(self, folder: Path) -> Mapping[str, Any]:
        data, settings = self._data, self._settings
        if settings.quick:
            base = (
                self._folder.path(Phase.FIT) / self._claim.model / self._result(Phase.FIT)["from"]
            )
            taken_at = self._result(Phase.SNAPSHOT)["taken_at"]
            return {
                "version": quick_version(
                    base, data.corpus, folder, self._tell, created_at=taken_at
                ).name
            }
        version = calibrate(
            read_parts(self._folder.path(Phase.FIT)),
            data.samples,
            folder,
            name=self._claim.model,
            seed=settings.seed,
            folds=settings.folds,
            corpus=data.corpus,
            operators=data.operators,
            created_at=self._result(Phase.SNAPSHOT)["taken_at"],
        )
        return {"version": version.name}

    def _judge(self, folder: Path) -> Mapping[str, Any]:
        serving = self._registry.serving(self._claim.model)
        evidence = gather(
            self._candidate,
            None
            if serving is None
            else self._registry.versions.fetch(self._claim.model, serving, folder),
            self._data,
            None if self._settings.quick else read_parts(self._folder.path(Phase.FIT)),
            self._database,
            self._tell,
        )
        # With NaN and infinities, which orjson does not write.
        (folder / _EVIDENCE).write_text(json.dumps(evidence))
        return {"serving": serving}

    def _decide(self, folder: Path) -> Mapping[str, Any]:
        evidence = json.loads((self._folder.path(Phase.JUDGE) / _EVIDENCE).read_text())
        candidate, serving, sets = evidence_from(evidence)
        if sets:
            margins = Margins(**self._settings.margins)  # type: ignore[arg-type]
            decision = decide(candidate, serving, sets, margins)
            verdict = Verdict(
                accepted=decision.accepted,
                state=self._state_of(accepted=decision.accepted),
                serving=self._result(Phase.JUDGE)["serving"],
                why=why_of(decision),
                report=decision.report(),
                findings=tuple(asdict(one) for one in decision.findings),
                groups=tuple(asdict(one) for one in decision.groups),
            )
        else:
            verdict = _nothing_to_judge_on(self._result(Phase.JUDGE)["serving"])
        (folder / "report.md").write_text(verdict.report)
        version = self._registry.free_version(self._candidate, self._claim.model)
        return {"version": version, "verdict": verdict.to_dict()}

    def _publish(self, folder: Path) -> Mapping[str, Any]:
        decided = self._result(Phase.DECIDE)
        version, verdict = decided["version"], verdict_from(decided["verdict"])
        # From here on another host finds out what shall become of the version.
        self._keep_decision(version, verdict)
        why = f"retraining {self._claim.name}{f': {self._claim.why}' if self._claim.why else ''}"
        try:
            self._registry.publish_as(self._candidate, self._claim.model, version, why=why)
        except DamagedArtifactError as error:
            if verdict.accepted:
                raise
            return {"published": False, "reason": error.message}
        reason = settle(self._registry, self._claim.model, version, verdict)
        return {"published": True, "reason": reason}

    # -- between them ---------------------------------------------------------------------------

    @cached_property
    def _data(self) -> LearningData:
        return self._read_data(LocalEngine(workers=self._place.workers))

    def _read_data(self, engine: TaskEngine) -> LearningData:
        return read_learning_data(
            self._folder.path(Phase.SNAPSHOT),
            self._result(Phase.SNAPSHOT),
            self._database,
            own_steps=self._settings.quick,
            cache=self._place.cache,
            engine=engine,
            progress=self._tell,
        )

    def _serving_into(self, folder: Path) -> str:
        """Copy the version that serves into a folder, and return which it is."""
        serving = self._registry.serving(self._claim.model)
        if serving is None:
            raise TrainingError(
                f"No version of {self._claim.model} serves that could take records in. The quick "
                "path starts from one: `perfmodel retrain` without --quick makes the first."
            )
        self._registry.versions.fetch(self._claim.model, serving, folder)
        return serving

    @property
    def _candidate(self) -> Path:
        version: str = self._result(Phase.CALIBRATE)["version"]
        return self._folder.path(Phase.CALIBRATE) / self._claim.model / version

    def _result(self, phase: Phase) -> Mapping[str, Any]:
        found = self._folder.result(phase)
        assert found is not None, "phases are done in their order"
        return found

    def _state_of(self, *, accepted: bool) -> State:
        if not accepted:
            return State.REFUSED
        if self._settings.shadow:
            return State.SHADOW
        return State.SERVING if self._settings.promote else State.CANDIDATE

    def _to_do_again(self) -> tuple[Phase, str] | None:
        """Return what has to be done again before anything takes effect, and why."""
        decided = self._result(Phase.DECIDE)
        version, verdict = decided["version"], verdict_from(decided["verdict"])
        if is_published(self._registry, self._claim.model, version):
            return None
        cells, _ = cells_of(read_observed(self._folder.path(Phase.SNAPSHOT)))
        numbers = {number for cell in cells for number in cell.numbers}
        lost = self._observed.taken_back(numbers)
        if lost:
            return Phase.SNAPSHOT, f"{len(lost)} observations that it rests on were taken back"
        serving = self._registry.serving(self._claim.model)
        if serving != verdict.serving:
            return Phase.JUDGE, f"{serving} serves by now, and it was compared with another version"
        return None

    def _keep_decision(self, version: str | None, verdict: Verdict | None) -> None:
        plain = None if verdict is None else verdict.to_dict()
        if not self._store.decide(self._claim, version=version, decision=plain):
            raise OvertakenError(
                f"Somebody else has the retraining {self._claim.name} by now, or it was cancelled."
            )

    def _decided_elsewhere(self) -> Ending | None:
        """Finish what an attempt of another host has begun to let take effect."""
        claim = self._claim
        if claim.version is None or claim.decision is None:
            return None
        if self._folder.result(Phase.DECIDE) is not None:
            return None  # it was here
        verdict = verdict_from(claim.decision)
        there = is_published(self._registry, claim.model, claim.version) and (
            claim.version in self._registry.versions.versions(claim.model)
            or is_settled(self._registry, claim.model, claim.version, verdict)
        )
        if not there:
            self._keep_decision(None, None)
            return None
        self._phase = Phase.PUBLISH
        self._tell(f"{claim.version} was published by an earlier attempt")
        reason = settle(self._registry, claim.model, claim.version, verdict)
        return _ending_of(claim.version, verdict, reason)

    def _ending(self) -> Ending:
        decided, published = self._result(Phase.DECIDE), self._result(Phase.PUBLISH)
        verdict = verdict_from(decided["verdict"])
        version = decided["version"] if published["published"] else None
        return _ending_of(version, verdict, published["reason"])

    def _tell(self, text: str) -> None:
        self._say(self._phase, text)


def _ending_of(version: str | None, verdict: Verdict, reason: str | None) -> Ending:
    return Ending(
        state=RetrainingState.DONE if verdict.accepted else RetrainingState.REFUSED,
        version=version,
        verdict=verdict,
        reason=reason if verdict.accepted else verdict.why,
    )


def _nothing_to_judge_on(serving: str | None) -> Verdict:
    why = (
        "There is nothing to judge it on: hardly a measured step was kept back, and the version "
        "that serves has learned from other records. Promote it by hand, or measure more jobs."
    )
    return Verdict(
        accepted=False, state=State.CANDIDATE, serving=serving, why=why,
        report=f"# Not judged\n\n{why}\n",
    )  # fmt: skip
