"""What to do about an alarm: the very commands, the first thing first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from perfmodel.feedback.residuals import Group
from perfmodel.store.feedback import Remedy

_CAMPAIGN = "perfmodel campaign create --from drift"
_RETRAIN = Remedy(
    action="retrain",
    why="Learn from what was observed and measured since; the gate decides whether it serves.",
    command="perfmodel retrain",
)


def remedies_of(group: Group) -> tuple[Remedy, ...]:
    """Return what to do where the residuals of a group drift."""
    return _REMEDIES[group.kind](group.value)


def _of_accelerator(name: str) -> tuple[Remedy, ...]:
    quoted = shlex.quote(name)
    return (
        Remedy(
            action="calibrate",
            why="On a machine with this card: measure the few workloads that tell most of it, and "
            "adapt the model.",
            command="perfmodel probe --device gpu --minutes 10",
        ),
        Remedy(
            action="probe",
            why="Let workers on such machines measure the jobs that are off, those first that "
            "tell most.",
            command=f"{_CAMPAIGN} --accelerator {quoted}",
        ),
        _RETRAIN,
    )


def _of_software(release: str) -> tuple[Remedy, ...]:
    return (
        Remedy(
            action="probe",
            why=f"Measure the jobs that are off on workers that run {release}.",
            command=_CAMPAIGN,
        ),
        _RETRAIN,
    )


def _of_job_class(_: str) -> tuple[Remedy, ...]:
    probe = Remedy(
        action="probe",
        why="Measure jobs of this class on the accelerators where they are off.",
        command=_CAMPAIGN,
    )
    return probe, _RETRAIN


def _of_reporter(name: str) -> tuple[Remedy, ...]:
    query = shlex.quote(f"$PERFMODEL_URL/v1/observations?reporter={name}").replace("'", '"')
    return (
        Remedy(
            action="examine",
            why="Nobody else sees this: look at what it reports, its units and its jobs.",
            command=f"curl -s {query}",
        ),
        Remedy(
            action="exclude",
            why="Leave out what it reported, until it is known to be right.",
            command=f'curl -s -X PATCH {query} -d \'{{"state": "excluded"}}\'',
        ),
    )


def _of_everything(_: str) -> tuple[Remedy, ...]:
    return (
        Remedy(
            action="examine",
            why="All answers are off: did another version begin to serve just before?",
            command="perfmodel models",
        ),
        Remedy(action="probe", why="Measure the jobs that are off.", command=_CAMPAIGN),
        _RETRAIN,
    )


_REMEDIES: Mapping[str, Callable[[str], tuple[Remedy, ...]]] = MappingProxyType(
    {
        "accelerator": _of_accelerator,
        "software": _of_software,
        "job_class": _of_job_class,
        "reporter": _of_reporter,
        "all": _of_everything,
    }
)
