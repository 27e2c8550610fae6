"""Cross-validation on made-up devices: what is kept, what is resumed, what the report says."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import orjson
import pytest
from accuracy_report.goals import GOALS
from accuracy_report.report import write_report
from accuracy_report.summary import probe_curve, summarise
from held_out.baselines import FittedRoofline
from held_out.cross_validation import (
    CrossValidation,
    cross_validate,
    load_answers,
    load_facts,
    note_duration,
)
from held_out.fold_schedule import FAST, FULL, Effort, fewer_operators, probe_sets, schedule
from held_out.frozen_folds import SPLITS, locks_of, make_folds
from held_out_steps import corpus
from plain_learner import PlainLearner

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import StoreError, TrainingError
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.prediction import Prediction

#: Models on three devices: outside the lockbox enough candidates for probes.
SAMPLES = corpus(families=10, per_family=36)
EFFORT = Effort(folds=2, device_folds=1, random_folds=1, random_probes=1)
BASELINES = {"roofline": lambda seed: FittedRoofline()}


def _learner(seed: int) -> PlainLearner:
    return PlainLearner(seed=seed, rounds=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers")
    cross_validate(
        CrossValidation(
            samples=SAMPLES,
            make_learner=_learner,
            folder=path,
            name="plain",
            effort=EFFORT,
            baselines=BASELINES,
        )
    )
    return path


def test_every_split_is_answered(folder: Path) -> None:
    table = load_answers(folder)
    # Made-up devices have fewer samples than a rich one, so that split is left out.
    assert set(table.split.tolist()) == set(SPLITS) - {"unseen-device-family"}
    assert np.isfinite(table.predicted_s).all()
    assert set(table.baselines) == {"roofline"}


def test_answers_on_known_ground_are_better_than_on_unknown(folder: Path) -> None:
    lines = {line.goal.name: line.scores.mape for line in summarise(load_answers(folder))}
    assert lines["timm-inference-random"] < lines["timm-inference-unseen-device"]


def test_probes_are_never_asked_and_help(folder: Path) -> None:
    table = load_answers(folder)
    goal = next(g for g in GOALS if g.name == "timm-inference-unseen-device")
    points = probe_curve(table, goal)
    for device in ("Mid-2", "Fast-4"):
        by_count = {
            p.probes: p.mape for p in points if p.device == device and p.choice != "random-0"
        }
        assert set(by_count) == {0, 3, 5, 10}
        assert by_count[10] < by_count[0]
    rows = {p.rows for p in points if p.device == "Mid-2"}
    assert len(rows) == 1  # every point is judged on the same rows
    (fold,) = [f for f in schedule(SAMPLES, EFFORT, ["unseen-device"]) if f.device == "Mid-2"]
    learner = _learner(0).fit([SAMPLES[i] for i in fold.train])
    sets = probe_sets(SAMPLES, fold, learner, 1)
    assert set(sets) == {"planned", "random-0"}
    asked = table.take((table.device == "Mid-2") & (table.probes > 0))
    probed = {SAMPLES[i].model for positions in sets.values() for i in positions}
    assert not probed & set(asked.model.tolist())


def test_the_report_and_its_numbers_agree(folder: Path, tmp_path: Path) -> None:
    page, numbers = tmp_path / "accuracy.md", tmp_path / "accuracy.json"
    write_report(folder, page, command="make bench-accuracy", json_path=numbers)
    text, found = page.read_text(), orjson.loads(numbers.read_bytes())
    lines = summarise(load_answers(folder))
    assert set(found["lines"]) == {line.goal.name for line in lines}
    for line in lines:
        assert line.goal.title in text
        assert f"**{100 * line.scores.mape:.1f} %**" in text
    for title in ("Ratios and ranks", "Intervals", "Out of distribution", "A few probes"):
        assert f"## {title}" in text
    assert "nan" not in text


def test_a_run_of_an_earlier_form_is_refused(folder: Path, tmp_path: Path) -> None:
    facts = load_facts(folder)
    del facts["operators"], facts["effort"]["most_asked"]
    (tmp_path / "run.json").write_bytes(orjson.dumps(facts))
    with pytest.raises(StoreError, match=r"operators, effort\.most_asked: it is of"):
        load_facts(tmp_path)


def test_a_resumed_run_fits_only_what_is_missing(folder: Path) -> None:
    before = load_answers(folder)
    lost = folder / "random" / "random-0.parquet"
    lost.unlink()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.parquet")}
    again = cross_validate(
        CrossValidation(
            samples=SAMPLES,
            make_learner=_learner,
            folder=folder,
            name="plain",
            effort=EFFORT,
            baselines=BASELINES,
        ),
        resume=True,
    )
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    # The same seed gives the same answers.
    np.testing.assert_array_equal(again.predicted_s, before.predicted_s)


def test_another_run_starts_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "random").mkdir()
    (tmp_path / "random" / "random-4.parquet").write_bytes(b"old")
    (tmp_path / "run.key").write_text("another")
    cross_validate(
        CrossValidation(
            samples=SAMPLES[::7],
            make_learner=_learner,
            folder=tmp_path,
            effort=EFFORT,
            baselines={},
            splits=["random"],
        ),
        resume=True,
    )
    assert [p.name for p in tmp_path.glob("random/*.parquet")] == ["random-0.parquet"]
    assert load_facts(tmp_path)["samples"] == len(SAMPLES[::7])
    note_duration(tmp_path, 600.0, 1140.0)
    assert load_facts(tmp_path)["samples"] == len(SAMPLES[::7])
    assert load_facts(tmp_path)["duration_s"] == 600.0
    write_report(tmp_path, tmp_path / "page.md", command="it")
    assert "10 minutes, 19 of one processor" in (tmp_path / "page.md").read_text()


class _Spy:
    """Answers one second and remembers what it was shown."""

    shown: list[Sequence[StepSample]] = []
    operators: list[Sequence[StepSample]] = []

    def fit(self, samples: Sequence[StepSample], *, operators: Sequence[StepSample] = ()) -> Self:
        _Spy.shown.append(samples)
        _Spy.operators.append(operators)
        return self

    def predict(self, steps: Sequence[Step]) -> list[Prediction]:
        if len({step.accelerator.name for step in steps}) == 1:
            raise ValueError("this one fails")
        return PlainLearner(rounds=5).fit(_Spy.shown[-1]).predict(steps)

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        return self


def test_the_learner_sees_the_training_part_alone_and_one_failure_is_not_the_end(
    tmp_path: Path,
) -> None:
    _Spy.shown = []
    some = SAMPLES[::7]
    with pytest.raises(TrainingError, match=r"(?s)3 of 5 folds failed.*this one fails"):
        cross_validate(
            CrossValidation(
                samples=some,
                make_learner=lambda seed: _Spy(),
                folder=tmp_path,
                baselines={},
                effort=EFFORT,
                splits=["unseen-family", "unseen-device"],
            )
        )
    assert len(list(tmp_path.glob("unseen-family/*.parquet"))) == 2
    folds = schedule(some, EFFORT, ["unseen-family", "unseen-device"])
    for fold, shown in zip(folds, _Spy.shown, strict=True):
        assert {id(s) for s in shown} == {id(some[i]) for i in fold.train}


def _sister(sample: StepSample) -> AcceleratorSpec:
    """Return another card with the same chip."""
    card = sample.step.accelerator
    return replace(card, name=f"{card.name}-Server", tdp_w=600.0, memory_bytes=96e9)


def test_operators_of_the_chip_that_is_left_out_stay_out(tmp_path: Path) -> None:
    _Spy.shown, _Spy.operators = [], []
    some = SAMPLES[::7]
    operators = [replace(s, step=replace(s.step, alone=True)) for s in some]
    operators += [replace(o, step=replace(o.step, accelerator=_sister(o))) for o in operators[:99]]
    splits = ["unseen-family", "unseen-device"]
    with pytest.raises(TrainingError, match="this one fails"):
        cross_validate(
            CrossValidation(
                samples=some,
                make_learner=lambda seed: _Spy(),
                folder=tmp_path,
                baselines={},
                effort=EFFORT,
                splits=splits,
                operators=operators,
            )
        )
    folds = schedule(some, EFFORT, splits)
    assert {fold.device for fold in folds} > {""}
    for fold, heard in zip(folds, _Spy.operators, strict=True):
        out = {fold.device, f"{fold.device}-Server"}
        assert list(heard) == [o for o in operators if o.step.accelerator.name not in out]
    assert load_facts(tmp_path)["operators"] == len(operators)


def test_folds_in_processes_give_the_same_answers(tmp_path: Path) -> None:
    tables = [
        cross_validate(
            CrossValidation(
                samples=SAMPLES[::4],
                make_learner=_learner,
                folder=tmp_path / str(workers),
                effort=EFFORT,
                baselines={},
                splits=["unseen-family"],
                workers=workers,
            )
        )
        for workers in (1, 2)
    ]
    np.testing.assert_array_equal(tables[0].predicted_s, tables[1].predicted_s)


def test_the_fast_form_learns_from_fewer_samples_and_keeps_small_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("held_out.fold_schedule._RICH", 100)
    monkeypatch.setattr("held_out.fold_schedule._SMALL_SOURCE", 200)
    own = [replace(s, source="profiles") for s in SAMPLES[:150]]
    samples = [one for one in (*SAMPLES, *own) if not locks_of([one])[0]]
    effort = replace(FAST, most_learned=300, most_asked=50)
    for fold in schedule(samples, effort, ["unseen-family"]):
        assert len(fold.train) == 300
        assert len(fold.test) == 50
        kept = sum(samples[i].source == "profiles" for i in fold.train)
        whole = next(f for f in make_folds(samples, "unseen-family") if f.name == fold.name)
        assert kept == sum(samples[i].source == "profiles" for i in whole.train)


def test_the_fast_form_hears_as_few_operators_whatever_their_order() -> None:
    operators = [replace(s, step=replace(s.step, alone=True)) for s in SAMPLES[:60]]
    few = fewer_operators(operators, 20)
    assert len(few) == len({id(one) for one in few}) == 20
    assert {id(one) for one in fewer_operators(operators[::-1], 20)} == {id(one) for one in few}
    assert fewer_operators(operators, None) == operators
    assert FAST.most_operators is not None


def test_the_page_says_what_the_fast_form_left_out(tmp_path: Path) -> None:
    effort = replace(FAST, most_learned=300, most_asked=50)
    full = len(schedule(SAMPLES[::2], FULL, ["unseen-family"]))
    for number, chosen in enumerate((EFFORT, effort)):
        folder, page = tmp_path / str(number), tmp_path / f"{number}.md"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("held_out.cross_validation.FAST", effort)
            cross_validate(
                CrossValidation(
                    samples=SAMPLES[::2],
                    make_learner=_learner,
                    folder=folder,
                    effort=chosen,
                    splits=["unseen-family"],
                )
            )
        write_report(folder, page, command="it")
        assert ("at most 300 steps and 1000 operators" in page.read_text()) is (chosen is effort)
        assert (f"fitted 2 of the {full} folds" in page.read_text()) is (chosen is effort)
