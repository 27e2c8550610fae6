"""What replays gave, in one file, and the figures that are read off it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from loop_replay.replay import Replayed

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.store.durable import write_whole

#: Arrivals on a device after which its error should be halved.
LEARNING = 20


@dataclass(frozen=True)
class Results:
    """Replays by the name of their stream, as plain JSON values."""

    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def joined(self, name: str, replayed: Replayed, *, note: str = "") -> Results:
        """Return these results with a replay in the place of an older one.

        Parameters
        ----------
        note : str
            What is peculiar to the run, for the page.
        """
        plain = {
            "note": note,
            "devices": replayed.devices,
            "releases": replayed.releases,
            "before": replayed.before,
            "known": replayed.known,
            "measured_s": replayed.measured_s.tolist(),
            "answered_s": {way: _plain(s) for way, s in replayed.answered_s.items()},
            "retrainings": [
                {
                    "after": one.after,
                    "device": one.device,
                    "records": one.records,
                    "trigger": one.trigger,
                    "accepted": one.decision.accepted,
                    "findings": [
                        f"{f.check}, {f.where}: {f.detail}" for f in one.decision.findings
                    ],
                }
                for one in replayed.retrainings
            ],
            "alarms": [
                {
                    "about": f"{one.group.kind} {one.group.value}",
                    "also": [f"{group.kind} {group.value}" for group in one.cause.also],
                    "shift": one.cause.shift,
                    "opened": one.opened.number + 1,
                    "ended": None if one.ended is None else one.ended.number + 1,
                }
                for one in replayed.alarms
            ],
        }
        return Results({**self.streams, name: plain})

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read what :meth:`write` wrote."""
        return cls(orjson.loads(path.read_bytes()))

    def write(self, path: Path) -> None:
        """Write a file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, orjson.dumps(dict(self.streams)))


def _plain(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(one) else float(one) for one in values]


def errors(stream: Mapping[str, Any], way: str) -> FloatArray:
    """Return the relative error of each answer; NaN where there is none."""
    answered = np.array(stream["answered_s"][way], dtype=np.float64)
    return np.abs(answered / np.array(stream["measured_s"]) - 1.0)


def mean_error(stream: Mapping[str, Any], way: str, chosen: BoolArray) -> float:
    """Return the mean error of some arrivals that were answered; NaN where none was."""
    found = errors(stream, way)[chosen]
    found = found[~np.isnan(found)]
    return float(found.mean()) if len(found) else float("nan")


def on_device(stream: Mapping[str, Any], device: str) -> BoolArray:
    """Tell which arrivals are of a device."""
    return np.array([one == device for one in stream["devices"]])


def after(stream: Mapping[str, Any], count: int) -> BoolArray:
    """Tell before which arrivals so many of their device had come."""
    return np.asarray(np.array(stream["before"]) >= count)
