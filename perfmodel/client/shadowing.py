"""Versions that answer beside the one that serves, as calls and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from perfmodel.client.protocol.messages import Call, quoted
from perfmodel.client.records import ModelChange

_LN = "Of ln(step time by the shadow / by the version that serves)."
_ERROR = "Mean of abs(ln(predicted / measured)) over the questions that were measured."
_UTC = "UTC, ISO 8601."
_STAGES = ("none", "waiting", "running", "done", "given up")


@dataclass(frozen=True, kw_only=True)
class ShadowGroup:
    """Some questions as two versions answer them."""

    dimension: Annotated[str, ("all", "device", "mode", "family", "placement_kind")]
    name: str
    asked: Annotated[int, "Questions in it."]
    compared: Annotated[int, "Those that both answer without what was observed of the job."]
    median: Annotated[float | None, f"{_LN} The median."]
    low: Annotated[float | None, f"{_LN} One in ten lies below."]
    high: Annotated[float | None, f"{_LN} One in ten lies above."]
    largest: Annotated[float | None, f"{_LN} The one farthest from 0."]
    mean_distance: Annotated[float | None, f"{_LN} The mean of its absolute value."]
    answered_distance: Annotated[
        float | None, "The same of the answers that people get, with what was observed."
    ]
    shadow_failed: Annotated[int, "Questions that the shadow alone cannot answer."]
    serving_failed: Annotated[int, "Questions that the version that serves alone cannot answer."]
    observed: Annotated[int, "Questions of which steps were measured."]
    serving_error: Annotated[float | None, _ERROR]
    shadow_error: Annotated[float | None, _ERROR]
    shadow_nearer: Annotated[int, "How many of the measured ones the shadow is nearer to."]


@dataclass(frozen=True, kw_only=True)
class ShadowQuestion:
    """One question as two versions answer it, and as it was measured."""

    label: Annotated[str, "The job."]
    device: str
    placement: str
    serving_s: Annotated[float | None, "Time of a step without what was observed of the job."]
    shadow_s: Annotated[float | None, "The same by the shadow."]
    ratio: Annotated[float | None, "ln of the second over the first."]
    answered_ratio: Annotated[float | None, "The same of the answers that people get."]
    measured_s: Annotated[float | None, "Median of the steps that were measured."]
    measured_since: Annotated[
        bool,
        "Whether these were reported after the shadow was trained, so that it cannot have learned "
        "from them.",
    ]
    problem: Annotated[str | None, "Why a version has no answer."]


@dataclass(frozen=True, kw_only=True)
class ShadowReport:
    """How far a version differs from the one that serves, on what was asked last."""

    model: Annotated[str, "The version that answers beside."]
    against: Annotated[str | None, "The version that it is compared with."]
    stage: Annotated[
        str,
        _STAGES,
        "Of the comparison: `none` of a version that is no shadow and never was; `done` where all "
        "that was asked was compared; `given up` where it failed too often.",
    ]
    problem: Annotated[str | None, "How it failed last."]
    waiting: Annotated[int, "Questions that were not compared yet."]
    started_at: Annotated[str | None, _UTC]
    compared_at: Annotated[str | None, f"{_UTC} When the newest comparison was made."]
    groups: Annotated[tuple[ShadowGroup, ...], "`all` first, then by dimension, the largest first."]
    most_different: tuple[ShadowQuestion, ...]
    failed: Annotated[tuple[ShadowQuestion, ...], "Those that the shadow alone fails on."]
    observed: Annotated[
        tuple[ShadowQuestion, ...],
        "Those that were measured, first where the shadow is farther off by most.",
    ]


def shadow(version: str, *, against: str | None = None) -> Call[ShadowReport]:
    """Tell how a version differs from the one that serves, on what was asked last.

    Parameters
    ----------
    against : str or None
        Another version that it was compared with.
    """
    return Call(
        method="GET", path=_path(version, "shadow"), kind=ShadowReport, query={"against": against}
    )


def start_shadow(version: str, *, why: str = "") -> Call[ModelChange]:
    """Let a version answer beside the one that serves; nobody is told its answers."""
    path = _path(version, "shadow")
    return Call(method="POST", path=path, kind=ModelChange, query={"why": why or None})


def refuse_model(version: str, *, why: str = "") -> Call[ModelChange]:
    """Decide that a version shall not serve; promoting it takes ``force`` then."""
    path = _path(version, "refuse")
    return Call(method="POST", path=path, kind=ModelChange, query={"why": why or None})


def _path(version: str, verb: str) -> str:
    name, slash, number = version.rpartition("/")
    return f"/v1/models/{quoted(name if slash else 'default')}/{quoted(number)}/{verb}"
