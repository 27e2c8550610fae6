"""What the service finds out about its own answers: forms of it, and the calls that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from perfmodel.client.protocol.messages import Call

_UTC = "UTC, ISO 8601."
_KIND = "What the group shares: `accelerator`, `software`, `job_class`, `reporter`, `all`."
_BIAS = "Median of ln(measured / predicted)"
_ERROR = "Mean of |ln(measured / predicted)|"


@dataclass(frozen=True, kw_only=True)
class AlarmRemedy:
    """One thing to do about an alarm."""

    action: Annotated[str, ("calibrate", "probe", "retrain", "examine", "exclude")]
    why: str
    command: Annotated[str, "The very command."]


@dataclass(frozen=True, kw_only=True)
class AlarmDoubt:
    """A job on an accelerator that an alarm makes doubtful."""

    job: Annotated[str, "Reference of the registered job."]
    batch_size: int
    accelerator: str


@dataclass(frozen=True, kw_only=True)
class DriftAlarm:
    """One group of observed steps that are not what is predicted any more."""

    id: str
    state: Annotated[str, ("open", "ended")]
    kind: Annotated[str, _KIND]
    value: Annotated[str, "Which one: a card, a release, a class of jobs, a reporter."]
    shift: Annotated[float, "Mean of ln(measured / predicted) since then."]
    count: Annotated[int, "Residuals of the group since then, until it was opened."]
    since: Annotated[str, "When the first of them was received; " + _UTC]
    opened_at: Annotated[str, "When the one was received that raised it; " + _UTC]
    ended_at: Annotated[str | None, _UTC] = None
    ended_because: str | None = None
    acknowledged_by: Annotated[str | None, "Who knows of it."] = None
    acknowledged_at: Annotated[str | None, _UTC] = None
    note: Annotated[str | None, "What they said."] = None
    also: Annotated[tuple[str, ...], "Other groups that explain it nearly as well."] = ()
    remedies: Annotated[tuple[AlarmRemedy, ...], "What to do, the first thing first."] = ()
    doubts: Annotated[tuple[AlarmDoubt, ...], "What a campaign would measure."] = ()


@dataclass(frozen=True, kw_only=True)
class DriftGroup:
    """The residuals of one group: of what was answered then, and of what would be now."""

    kind: Annotated[str, ("all", "accelerator", "software", "mode", "operators", "reporter")]
    value: str
    count: Annotated[int, "Observations."]
    bias: Annotated[float, f"{_BIAS}, as it was answered then."]
    error: Annotated[float, f"{_ERROR}, as it was answered then."]
    coverage: Annotated[float, "Share of observations inside the interval of that answer."]
    bias_now: Annotated[
        float | None, f"{_BIAS} by the model that serves now, without observations."
    ] = None
    error_now: Annotated[
        float | None, f"{_ERROR} by the model that serves now, without observations."
    ] = None


@dataclass(frozen=True, kw_only=True)
class DriftReporter:
    """How far what somebody reports agrees with what others do."""

    reporter: str
    count: Annotated[int, "Observations."]
    jobs: int
    deviation: Annotated[
        float, "Median by how much its steps take longer than those of others, in logarithms."
    ]
    weight: Annotated[float, "What its voice counts for jobs of others, 0 to 1.", {"ge": 0}]
    disagrees: Annotated[bool, "Whether that is more than chance explains."]


@dataclass(frozen=True, kw_only=True)
class DriftPoint:
    """Residuals of one group within some time, for a line over time."""

    kind: Annotated[str, ("all", "accelerator")]
    value: str
    begins_at: Annotated[str, "When the first of them was received; " + _UTC]
    ends_at: Annotated[str, "When the last was; " + _UTC]
    count: int
    bias: Annotated[float, f"{_BIAS}, as it was answered then."]
    error: Annotated[float, f"{_ERROR}, as it was answered then."]
    error_now: Annotated[float | None, f"{_ERROR} by the model that serves now."] = None


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Whether answers still fit what is observed, and what to do where they do not.

    Groups, reporters and points are of the newest observations, alarms of all.
    """

    model: Annotated[str, "The version that serves now."]
    compared: Annotated[int, "Observations beside what was answered before they counted."]
    left_out: Annotated[int, "Observations of which there was no answer."]
    waiting: Annotated[int, "Observations that are not compared yet."]
    alarms: Annotated[tuple[DriftAlarm, ...], "Open ones first, the newest first."]
    groups: tuple[DriftGroup, ...]
    reporters: Annotated[tuple[DriftReporter, ...], "Those that disagree first."]
    points: Annotated[tuple[DriftPoint, ...], "Of each group in the order of time."]
    problems: Annotated[tuple[str, ...], "Why drift is not looked for, where it is not."] = ()


@dataclass(frozen=True, kw_only=True)
class AlarmsAcknowledged:
    """How many alarms are known of now."""

    acknowledged: int


@dataclass(frozen=True, kw_only=True)
class DriftCampaign:
    """A campaign for what alarms doubt on one accelerator."""

    id: str
    total: Annotated[int, "Workloads that are to be measured."]
    created: Annotated[bool, "False where the same one was made before."]


@dataclass(frozen=True, kw_only=True)
class DriftCampaigns:
    """Campaigns for what alarms doubt."""

    campaigns: Annotated[tuple[DriftCampaign, ...], "One for each accelerator."]


def drift(*, ended: int = 20) -> Call[Drift]:
    """Ask whether answers still fit what is observed; with so many alarms that have ended."""
    return Call(method="GET", path="/v1/drift", kind=Drift, query={"ended": ended}, large=True)


def acknowledge_alarms(id: str | None = None, *, note: str = "") -> Call[AlarmsAcknowledged]:
    """Say that an alarm is known of, or all open ones; they stay open until residuals are fine."""
    query = {"alarm": id, "note": note or None}
    return Call(method="POST", path="/v1/drift/acknowledge", kind=AlarmsAcknowledged, query=query)


def drift_campaigns(policy: Mapping[str, Any] | None = None) -> Call[DriftCampaigns]:
    """Enter campaigns that measure what open alarms doubt, one for each accelerator."""
    body = {"policy": dict(policy or {})}
    return Call(method="POST", path="/v1/drift/campaign", kind=DriftCampaigns, body=body)
