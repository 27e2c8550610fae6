"""What lies in the lockbox, that no choice sees it, and what the report says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from accuracy_report.kept_sections import LOCKBOX_HEADING
from accuracy_report.lockbox import Side, compared
from accuracy_report.report import write_lockbox, write_report
from held_out.cross_validation import CrossValidation, cross_validate
from held_out.fold_schedule import Effort, schedule
from held_out.frozen_folds import LOCKBOX, LOCKED, SPLITS, is_locked, locks, locks_of
from held_out_steps import corpus
from plain_learner import PlainLearner

from perfmodel.features.steps.step import StepSample

SAMPLES = corpus(families=10, per_family=12)
EFFORT = Effort(folds=2, device_folds=1, random_folds=1, random_probes=1)


def _with_locked_device() -> list[StepSample]:
    """Every fourth sample on a device whose name lies in the lockbox, with a chip of its own."""
    name = next(n for n in (f"Card-{i}" for i in range(99)) if is_locked(n))
    return [
        _on(sample, name, "Chip of the lockbox") if i % 4 == 0 else sample
        for i, sample in enumerate(SAMPLES)
    ]


def _on(sample: StepSample, name: str, chip: str, *, alone: bool = False) -> StepSample:
    card = replace(sample.step.accelerator, name=name, architecture=chip)
    return replace(sample, step=replace(sample.step, accelerator=card, alone=alone))


def test_a_fifth_of_the_names_is_locked_and_stays_so() -> None:
    names = [f"Device-{i}" for i in range(4000)]
    share = np.mean([is_locked(name) for name in names])
    assert abs(share - LOCKED) < 3 * np.sqrt(LOCKED * (1 - LOCKED) / len(names))
    # Frozen: these have taken part in no choice before.
    assert (
        is_locked("RTX-PRO-6000-Max-Q") and is_locked("T4") and is_locked("swin_transformer_v2_cr")
    )
    assert not is_locked("RTX-4090") and not is_locked("H100-SXM5-80GB")


def test_the_first_reason_counts_and_mode_makes_a_job() -> None:
    open_family = next(n for n in (f"f{i}" for i in range(99)) if not is_locked(n))
    job = next(n for n in (f"m{i}" for i in range(99)) if is_locked(f"{n} training"))
    found = locks(
        ["T4", "RTX-4090", "RTX-4090", "RTX-4090"],
        ["cait", "cait", open_family, open_family],
        [job, job, job, job],
        ["training", "training", "training", "inference"],
    )
    expected = "job" if is_locked(f"{job} inference") else ""
    assert found.tolist() == ["device", "family", "job", expected]


def test_no_choice_sees_it_and_the_lockbox_is_asked_whole() -> None:
    samples = _with_locked_device()
    why = locks_of(samples)
    assert {"", "device", "family", "job"} == set(why.tolist())
    for fold in schedule(samples, EFFORT, SPLITS):
        assert set(why[fold.train].tolist()) == {""}
        if fold.split != LOCKBOX:
            assert set(why[fold.test].tolist()) == {""}
    (fold,) = schedule(samples, EFFORT, [LOCKBOX])
    assert sorted([*fold.train, *fold.test]) == list(range(len(samples)))
    assert np.all(why[fold.test] != "")


class _Listener(PlainLearner):
    """Remembers on which devices the operators ran that it was given."""

    heard: list[set[str]] = []

    def fit(self, samples: Sequence[StepSample], *, operators: Sequence[StepSample] = ()) -> Self:
        _Listener.heard.append({one.step.accelerator.name for one in operators})
        return super().fit(samples)


def test_operators_of_its_devices_are_never_heard_nor_those_of_their_chips_when_it_is_asked(
    tmp_path: Path,
) -> None:
    samples = _with_locked_device()
    locked = next(s for s in samples if is_locked(s.step.accelerator.name)).step.accelerator
    open_name = next(n for n in (f"Sister-{i}" for i in range(99)) if not is_locked(n))
    operators = [
        _on(SAMPLES[0], locked.name, locked.architecture, alone=True),
        _on(SAMPLES[0], open_name, locked.architecture, alone=True),
        _on(SAMPLES[0], f"{open_name}-other", "Chip of no other", alone=True),
    ]
    assert not is_locked(f"{open_name}-other")
    _Listener.heard = []
    cross_validate(
        CrossValidation(
            samples=samples, make_learner=lambda seed: _Listener(seed=seed, rounds=5),
            folder=tmp_path, effort=EFFORT, baselines={}, operators=operators,
            splits=["random", LOCKBOX],
        )
    )  # fmt: skip
    both = {open_name, f"{open_name}-other"}
    assert _Listener.heard == [both, {f"{open_name}-other"}]


def test_the_spread_is_that_of_what_was_left_out() -> None:
    # Two units of two rows: means 0.1 and 0.3, off by 0.1 each, 0.1 / sqrt(2 - 1) = 0.1.
    side = Side(errors=np.array([0.0, 0.2, 0.2, 0.4]), units=np.array(["a", "a", "b", "b"]))
    assert abs(side.mape - 0.2) < 1e-12
    assert abs(float(side.spread or 0.0) - 0.1) < 1e-12
    assert side.without_one(towards=0.5) == ("a", pytest.approx(0.3))
    assert side.without_one(towards=0.0) == ("b", pytest.approx(0.1))
    assert Side(errors=np.ones(3), units=np.array(["a"] * 3)).spread is None


def test_the_page_sets_both_side_by_side(tmp_path: Path) -> None:
    answers = cross_validate(
        CrossValidation(
            samples=_with_locked_device(),
            make_learner=lambda seed: PlainLearner(seed=seed, rounds=20),
            folder=tmp_path / "run",
            effort=EFFORT,
            baselines={},
            splits=["unseen-family", "unseen-device", LOCKBOX],
        )
    )
    lines = compared(answers)
    assert {"unseen-device", "unseen-family"} <= {one.goal.split for one in lines}
    locked = answers.take(answers.split == LOCKBOX)
    why = locks(
        locked.device.tolist(), locked.family.tolist(), locked.model.tolist(), locked.mode.tolist()
    )
    of_devices = next(one for one in lines if one.goal.split == "unseen-device")
    assert len(of_devices.lockbox.errors) == np.count_nonzero(why == "device")
    page = tmp_path / "accuracy.md"
    write_report(tmp_path / "run", page, command="make bench-accuracy")
    whole = page.read_text()
    assert whole.count(LOCKBOX_HEADING) == 1
    write_lockbox(tmp_path / "run", page, command="this one")
    again = page.read_text()
    assert again.count(LOCKBOX_HEADING) == 1 and "Written by `this one`" in again
    outside = whole.split(LOCKBOX_HEADING)[0]
    assert again.startswith(outside)
