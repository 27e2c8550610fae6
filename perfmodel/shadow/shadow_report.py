"""How far two versions differ on what was asked, and which of them was right."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from perfmodel.client.shadowing import ShadowGroup, ShadowQuestion, ShadowReport
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State
from perfmodel.store.artifacts import named_version
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore, Measured
from perfmodel.store.shadow.shadow_runs import ShadowRun, ShadowRunStore
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.leases import RUNNING

#: By what questions are grouped; ``all`` is one group.
DIMENSIONS = ("all", "device", "mode", "family", "placement_kind")

#: Characters of a time up to the seconds, which all of them are written alike to.
_SECONDS = len("2026-01-01T00:00:00")

#: Questions that a report names of each sort.
NAMED = 20


class _Pair(NamedTuple):
    compared: Comparison
    question: ShadowQuestion


def read_report(
    connections: Connections,
    registry: ModelRegistry,
    name: str,
    version: str,
    *,
    against: str | None = None,
) -> ShadowReport:
    """Sum up what is known of a version that answers, or did, beside another.

    Parameters
    ----------
    connections : Connections
        To the database of the service.
    against : str or None
        The other, as :func:`.named_version` reads it; None: the one that it was compared with last.

    Raises
    ------
    UnknownNameError
        There is no such version.
    StoreError
        The database cannot be read.
    """
    manifest = registry.versions.manifest(name, version)
    is_shadow = registry.history(name).states.get(version) is State.SHADOW
    model = f"{name}/{version}"
    store, run = ComparisonStore(connections), ShadowRunStore(connections).find(model)
    against = "/".join(named_version(against)) if against else store.last_against(model)
    return summed_up(
        model,
        against,
        store.of_pair(model, against) if against else (),
        store.measured(model, against) if against else {},
        run=run,
        is_shadow=is_shadow,
        waiting=store.waiting(model, against or "") if is_shadow else 0,
        trained_at=str(manifest.get("created_at", "")),
    )


def summed_up(
    model: str,
    against: str | None,
    comparisons: Sequence[Comparison],
    measured: Mapping[str, Sequence[Measured]],
    *,
    run: ShadowRun | None = None,
    is_shadow: bool = True,
    waiting: int = 0,
    trained_at: str = "",
) -> ShadowReport:
    """Sum up comparisons of two versions.

    Parameters
    ----------
    measured : mapping of str to sequence of Measured
        By the key of their question. Where some were reported since the shadow was trained, the
        question is judged by these alone.
    is_shadow : bool
        Whether the first is one by now: another is compared no more.
    waiting : int
        Questions that were not compared yet.
    trained_at : str
        When it was trained, UTC, ISO 8601; empty where that is not known.
    """
    pairs = [
        _Pair(one, _question(one, measured.get(one.question, ()), trained_at))
        for one in comparisons
        # What neither can answer says nothing of either.
        if one.serving_problem is None or one.shadow_problem is None
    ]
    questions = [pair.question for pair in pairs]
    return ShadowReport(
        model=model,
        against=against,
        stage=_stage(run, waiting) if is_shadow else "done" if comparisons else "none",
        problem=None if run is None else run.problem,
        waiting=waiting,
        started_at=None if run is None else run.created_at,
        compared_at=max((one.compared_at for one in comparisons), default=None),
        groups=tuple(group for dimension in DIMENSIONS for group in _groups(dimension, pairs)),
        most_different=_largest(
            [one for one in questions if one.ratio], lambda one: abs(one.ratio or 0.0)
        ),
        failed=tuple(pair.question for pair in pairs if _shadow_failed(pair.compared))[:NAMED],
        observed=_largest([one for one in questions if _errors(one)], _farther_by),
    )


def _stage(run: ShadowRun | None, waiting: int) -> str:
    if run is None:
        return "none"
    if run.state == RUNNING:
        return "running"
    if run.is_given_up:
        return "given up"
    return "waiting" if waiting else "done"


def _question(one: Comparison, seen: Sequence[Measured], trained_at: str) -> ShadowQuestion:
    later = [step for step in seen if trained_at and step.received_at > trained_at[:_SECONDS]]
    counted = [step.step_time_s for step in later or seen]
    ratio = None
    if one.serving_s is not None and one.shadow_s is not None:
        ratio = math.log(one.shadow_s / one.serving_s)
    return ShadowQuestion(
        label=one.label,
        device=one.device,
        placement=_for_people(one.placement),
        serving_s=one.serving_s,
        shadow_s=one.shadow_s,
        ratio=ratio,
        answered_ratio=one.answered_ratio,
        measured_s=median(counted) if counted else None,
        measured_since=bool(later),
        problem=one.shadow_problem or one.serving_problem,
    )


def _for_people(placement: str) -> str:
    """Return a placement without the quotes of JSON, where it has a short form."""
    written = json.loads(placement)
    return written if isinstance(written, str) else placement


def _groups(dimension: str, pairs: Iterable[_Pair]) -> list[ShadowGroup]:
    by_name: dict[str, list[_Pair]] = {}
    for pair in pairs:
        name = dimension if dimension == "all" else str(getattr(pair.compared, dimension))
        by_name.setdefault(name, []).append(pair)
    found = [_group(dimension, name, own) for name, own in by_name.items()]
    return sorted(found, key=lambda one: (-one.asked, one.name))


def _group(dimension: str, name: str, pairs: Sequence[_Pair]) -> ShadowGroup:
    ratios = sorted(one.question.ratio for one in pairs if one.question.ratio is not None)
    answered = [one.compared.answered_ratio for one in pairs]
    errors = [found for one in pairs if (found := _errors(one.question))]
    return ShadowGroup(
        dimension=dimension,
        name=name,
        asked=len(pairs),
        compared=len(ratios),
        median=_quantile(ratios, 0.5),
        low=_quantile(ratios, 0.1),
        high=_quantile(ratios, 0.9),
        largest=max(ratios, key=abs, default=None),
        mean_distance=_mean([abs(ratio) for ratio in ratios]),
        answered_distance=_mean([abs(ratio) for ratio in answered if ratio is not None]),
        shadow_failed=sum(_shadow_failed(one.compared) for one in pairs),
        serving_failed=sum(_serving_failed(one.compared) for one in pairs),
        observed=len(errors),
        serving_error=_mean([one.serving for one in errors]),
        shadow_error=_mean([one.shadow for one in errors]),
        shadow_nearer=sum(one.shadow < one.serving for one in errors),
    )


def _shadow_failed(one: Comparison) -> bool:
    return one.shadow_problem is not None and one.serving_problem is None


def _serving_failed(one: Comparison) -> bool:
    return one.serving_problem is not None and one.shadow_problem is None


class _Errors(NamedTuple):
    """How far each version is from what was measured."""

    serving: float
    shadow: float


def _errors(question: ShadowQuestion) -> _Errors | None:
    """Return the errors of a question that both answer and that was measured, else None."""
    if question.measured_s is None or question.serving_s is None or question.shadow_s is None:
        return None
    return _Errors(
        serving=abs(math.log(question.serving_s / question.measured_s)),
        shadow=abs(math.log(question.shadow_s / question.measured_s)),
    )


def _farther_by(question: ShadowQuestion) -> float:
    errors = _errors(question)
    return 0.0 if errors is None else errors.shadow - errors.serving


def _largest(
    questions: Iterable[ShadowQuestion], size: Callable[[ShadowQuestion], float]
) -> tuple[ShadowQuestion, ...]:
    return tuple(sorted(questions, key=size, reverse=True)[:NAMED])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values, linear between neighbours.

    Examples
    --------
    >>> _quantile([0.0, 1.0, 2.0], 0.25), _quantile([], 0.5)
    (0.5, None)
    """
    if not ordered:
        return None
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
