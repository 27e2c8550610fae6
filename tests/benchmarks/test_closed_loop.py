"""A short replay on made-up devices, and the page about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import joint_world as world
import numpy as np
import pytest
from loop_replay.arrivals import Arrival
from loop_replay.loop import KEPT_BACK_OF, Loop
from loop_replay.page import write_page
from loop_replay.published_steps import PublishedSamples
from loop_replay.replay import BOTH, EVIDENCE, LEARNED, NOTHING, Replayed, replay
from loop_replay.results import LEARNING, Results, after, mean_error, on_device
from quick_path import OTHERS, judge

from perfmodel.features.steps.step import StepSample
from perfmodel.graph.job import Job
from perfmodel.predictors.joint.joint import JointPredictor

NEW, SLOWER = "Gpu-New", 1.6


def _arrivals() -> list[Arrival]:
    """The device that nobody knows, then one that is known and behaves as ever."""
    rng = np.random.default_rng(3)
    found = []
    for name, slower in ((NEW, SLOWER), ("Gpu-S", 1.0)):
        samples = world.samples((name,), slower=slower)
        found += [
            Arrival(
                job=Job(model=one.model, mode=one.step.mode, batch_size=one.step.batch_size),
                sample=one,
            )
            for one in (samples[i] for i in rng.permutation(len(samples))[:30])
        ]
    return found


@pytest.fixture(scope="module")
def start() -> JointPredictor:
    return JointPredictor(folds=2, epochs=3, rounds=20).fit(world.samples(world.KNOWN[:2]))


def _never(more: Sequence[StepSample]) -> JointPredictor:
    raise AssertionError(f"a fit was started with {len(more)} records")


@pytest.fixture(scope="module")
def replayed(start: JointPredictor) -> Replayed:
    frozen = world.samples(("Gpu-L",))[::5]
    return replay("devices", start, _arrivals(), frozen, _never, evidence=False)


def test_the_error_on_a_new_device_is_halved_and_no_other_moves(replayed: Replayed) -> None:
    stream = Results().joined("devices", replayed).streams["devices"]
    late = on_device(stream, NEW) & after(stream, LEARNING)
    assert mean_error(stream, NOTHING, late) > 0.3, "1 - 1 / 1.6 = 0.375"
    assert mean_error(stream, LEARNED, late) < 0.5 * mean_error(stream, NOTHING, late)
    # Each record is answered before it is learned: of the first ones nothing was known.
    first = on_device(stream, NEW) & ~after(stream, 4)
    assert mean_error(stream, LEARNED, first) == mean_error(stream, NOTHING, first)
    accepted = [one for one in replayed.retrainings if one.decision.accepted]
    assert [one.device for one in accepted][:2] == [NEW, NEW]
    assert [one.records for one in replayed.retrainings if one.device == NEW] == [4, 8, 16]


def test_what_is_kept_back_is_never_learned(start: JointPredictor) -> None:
    arrivals = _arrivals()
    loop = Loop(start, arrivals, world.samples(("Gpu-L",))[::5], _never)
    for at in range(20):
        loop.learn(at)
    assert sum(loop.serving.known_.beliefs.records.values()) == 16
    kept_back = arrivals[KEPT_BACK_OF - 1].measured_s
    assert all(
        kept_back != one.step_time_s for records in loop._records.values() for one in records
    )


def test_enough_records_start_a_fit_to_all_of_them(
    start: JointPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loop_replay.loop.FIT_AFTER", 12)
    fits: list[int] = []

    def refit(more: Sequence[StepSample]) -> JointPredictor:
        fits.append(len(more))
        return start

    loop = Loop(start, _arrivals(), world.samples(("Gpu-L",))[::5], refit)
    for at in range(30):
        loop.learn(at)
    assert fits == [12, 24], "24 of 30 are not kept back"
    by_count = [one for one in loop.retrainings if not one.device]
    assert [(one.trigger, one.records) for one in by_count][0] == ("records", 12)


def test_the_page_tells_ways_devices_and_retrainings(replayed: Replayed, tmp_path: Path) -> None:
    results = Results().joined("devices", replayed)
    results.write(tmp_path / "results.json")
    write_page(Results.read(tmp_path / "results.json"), tmp_path / "closed-loop.md")
    text = (tmp_path / "closed-loop.md").read_text()
    assert f"| {NEW} | 20 of 30 |" in text and "| Gpu-S (known) | 20 of 30 |" in text
    assert f"{len(replayed.retrainings)} retrainings" in text
    picture = ElementTree.parse(tmp_path / "closed-loop.svg").getroot()
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    # Without evidence its two ways have no line.
    assert [bool(line.get("points")) for line in lines] == [True, False, True, False]
    assert (
        np.isnan(replayed.answered_s[EVIDENCE]).all() and np.isnan(replayed.answered_s[BOTH]).all()
    )


def test_the_quick_path_is_judged_beside_a_full_fit() -> None:
    samples = (*world.samples(world.KNOWN[:2]), *world.samples((NEW,), slower=SLOWER))
    run = judge(
        PublishedSamples(samples=samples, operators=()), [NEW], records=20, folds=2, passes=2
    )
    rows = {one.device: one for one in run.rows}
    assert rows[NEW].records == 20 and rows[NEW].asked == 72 - 20
    assert rows[NEW].quick < 0.5 * rows[NEW].before
    assert rows[OTHERS].quick == rows[OTHERS].before and run.worst_other == 0.0


def _of_release(name: str, slower: float) -> list[Arrival]:
    """A newer release on a device that is known."""
    return [
        Arrival(
            job=Job(model=one.model, mode=one.step.mode, batch_size=one.step.batch_size),
            sample=replace(one, step=replace(one.step, software={"torch": "2.9.0"})),
        )
        for one in world.samples((name,), slower=slower)[:40]
    ]


@pytest.mark.parametrize(
    ("devices", "about"),
    [(("Gpu-S",), "accelerator Gpu-S"), (("Gpu-S", "Gpu-L"), "software torch 2.9")],
)
def test_an_alarm_starts_the_quick_path_or_a_fit(
    start: JointPredictor, monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...], about: str
) -> None:
    # Nothing is learned by the count of records: what is, is because of an alarm.
    monkeypatch.setattr("loop_replay.loop.FIRST_LEARNED", 10_000)
    arrivals = [one for pair in zip(*(_of_release(d, 3.0) for d in devices), strict=True)
                for one in pair]  # fmt: skip
    fits: list[int] = []

    def refit(more: Sequence[StepSample]) -> JointPredictor:
        fits.append(len(more))
        return start

    replayed = replay(
        "releases", start, arrivals, world.samples(("Cpu",))[::5], refit, evidence=False
    )
    (alarm, *_) = replayed.alarms
    assert f"{alarm.group.kind} {alarm.group.value}" == about
    assert alarm.cause.shift == pytest.approx(np.log(3.0), abs=0.2)
    opened = alarm.opened.number + 1
    kept_back = opened // KEPT_BACK_OF
    (retraining, *_) = replayed.retrainings
    assert (retraining.trigger, retraining.after) == (about, opened)
    assert retraining.records == opened - kept_back
    # A fit where no device is named, with all that was not kept back.
    assert fits[:1] == ([] if len(devices) == 1 else [opened - kept_back])
    assert retraining.device == (devices[0] if len(devices) == 1 else "")
    stream = Results().joined("releases", replayed).streams["releases"]
    assert stream["alarms"][0]["opened"] == opened
