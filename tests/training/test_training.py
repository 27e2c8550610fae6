"""Splits, scores, evaluation and report on made-up measurements with a known law."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.errors import InvalidInputError, TrainingError
from perfmodel.predictors.folds import CrossFit, family_fold, family_folds
from perfmodel.predictors.registry import new_predictor
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.training.samples.samples import data_digest
from perfmodel.training.train import train
from perfmodel.training.validation.evaluate import Evaluation, evaluate
from perfmodel.training.validation.evaluation_report import held_out_models, write_report
from perfmodel.training.validation.held_out_folds import workload_folds
from perfmodel.training.validation.workload_scores import score, spearman

SAMPLES = made_up.samples(families=14)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(SAMPLES, members=("operators", "gbdt"), folds=4)


def test_the_fold_of_a_family_is_frozen() -> None:
    # From a hash of the name: these values must never change, or old figures lose their meaning.
    names = ("resnet", "vit", "bert", "convnext", "gpt2")
    assert [family_fold(name, 5) for name in names] == [2, 0, 1, 3, 4]
    assert family_folds(SAMPLES, 5).tolist() == [family_fold(s.family, 5) for s in SAMPLES]


def test_families_never_lie_on_both_sides() -> None:
    fold = workload_folds(SAMPLES, "leave-family-out", 5)
    for family in {s.family for s in SAMPLES}:
        assert len({f for f, s in zip(fold, SAMPLES, strict=True) if s.family == family}) == 1


def test_one_family_cannot_be_split() -> None:
    one = [dataclasses.replace(s, family="same") for s in SAMPLES]
    with pytest.raises(TrainingError, match="profile more families"):
        workload_folds(one, "leave-family-out")
    with pytest.raises(InvalidInputError, match="leave-family-out"):
        workload_folds(SAMPLES, "by-moon-phase")


def test_no_fit_ever_sees_what_it_answers() -> None:
    seen: list[set[str]] = []

    class Spy:
        def fit(self, samples: list[made_up.Sample]) -> Spy:
            self.families = {s.family for s in samples}
            return self

        def predict(self, workloads: list[made_up.Workload]) -> np.ndarray:
            asked = {family_of[id(w)] for w in workloads}
            assert not asked & self.families
            seen.append(asked)
            return np.ones(len(workloads))

    family_of = {id(s.workload): s.family for s in SAMPLES}
    cross = CrossFit(SAMPLES, family_folds(SAMPLES, 4), lambda name: Spy())  # type: ignore[arg-type,return-value]
    assert np.isfinite(cross.out_of_fold("x")).all()
    inner = cross.out_of_fold("x", frozenset({0}))
    assert np.array_equal(np.isnan(inner), cross.fold == 0)
    for fold in range(1, 4):
        cross.out_of_fold("x", frozenset({fold}))
    # 4 single folds and 6 pairs of folds: a pair serves both of its orders.
    assert len(seen) == 4 + 6


def test_learned_predictors_beat_the_baselines(evaluation: Evaluation) -> None:
    errors = {name: evaluation.scores(name).mape for name in evaluation.predictors}
    assert errors["ensemble"] < 0.12
    for baseline in ("constant", "roofline"):
        assert errors["ensemble"] < 0.5 * errors[baseline]


def test_every_sample_is_answered_once(evaluation: Evaluation) -> None:
    for answers in evaluation.answers_s.values():
        assert np.isfinite(answers).all() and np.all(answers > 0)
    for weights in evaluation.weights.values():
        assert sum(weights.values()) == pytest.approx(1.0)
    assert np.all(evaluation.low_s < evaluation.high_s)


def test_intervals_cover_about_as_much_as_they_say(evaluation: Evaluation) -> None:
    coverage = evaluation.scores().coverage
    assert coverage is not None and coverage >= 0.8


def test_summary_has_every_mode_and_family(evaluation: Evaluation) -> None:
    summary = evaluation.summary()
    assert set(summary["by_mode"]) == {"training", "inference"}
    assert set(summary["by_family"]) == {s.family for s in SAMPLES}
    assert summary["overall"]["ensemble"]["count"] == len(SAMPLES)
    assert summary["data_digest"] == data_digest(SAMPLES)


def test_the_digest_depends_on_the_data_and_not_on_its_order() -> None:
    assert data_digest(SAMPLES[::-1]) == data_digest(SAMPLES)
    changed = [dataclasses.replace(SAMPLES[0], step_time_s=1.0), *SAMPLES[1:]]
    assert data_digest(changed) != data_digest(SAMPLES)


def test_scores_by_hand() -> None:
    chosen = [dataclasses.replace(s, step_time_s=1.0) for s in SAMPLES[:2]]
    scores = score(chosen, np.array([1.1, 0.8]))
    assert scores.mape == pytest.approx((0.1 + 0.2) / 2)
    assert scores.median_ape == pytest.approx(0.15)
    assert scores.bias == pytest.approx(math.sqrt(1.1 * 0.8) - 1)
    assert scores.rank is None and scores.coverage is None


def test_ratio_between_batch_sizes_by_hand() -> None:
    pair = [s for s in SAMPLES if s.model == SAMPLES[0].model and s.workload.mode == "training"]
    assert [s.workload.batch_size for s in pair] == [4, 16]
    # Predicted over measured is 1.1 and 1.21: the ratio of both batch sizes is off by 10 %.
    answers = np.array([1.1 * pair[0].step_time_s, 1.21 * pair[1].step_time_s])
    assert score(pair, answers).batch_ratio_error == pytest.approx(0.1)


def test_rank_correlation_by_hand() -> None:
    # Ranks 0 1 2 3 against 0 2 1 3: 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15) = 0.8
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.8)
    assert spearman(np.array([1.0, 2]), np.array([5.0, 5.0])) == 0.0


def test_report_quotes_scores_baselines_and_command(evaluation: Evaluation, tmp_path: Path) -> None:
    path = write_report(
        evaluation, tmp_path / "docs" / "accuracy.md", command="perfmodel evaluate --report"
    )
    text = path.read_text()
    assert "`perfmodel evaluate --report`" in text
    assert f"{100 * evaluation.scores().mape:.1f} %" in text
    for name in evaluation.predictors:
        assert name in text
    assert text.count("| family") >= 14
    assert "nan" not in text.lower()


def test_shown_models_are_chosen_by_name_one_per_family() -> None:
    chosen = held_out_models(SAMPLES, 6)
    assert len(chosen) == 6
    assert len({SAMPLES[i].family for i in chosen}) == 6
    assert len({SAMPLES[i].workload.mode for i in chosen}) == 2


def test_training_writes_a_sound_version(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = train(
        SAMPLES, tmp_path, name="n", members=("efficiency", "gbdt"), folds=3, progress=lines.append
    )
    assert folder.parent == tmp_path / "n"
    assert len(lines) == 2 * 3 + 2
    model = ServingModel.load(folder)
    assert model.manifest["data"]["digest"] == data_digest(SAMPLES)
    assert model.manifest["data"]["samples"] == len(SAMPLES)
    assert set(model.manifest["scores"]["predictors"]) == {"efficiency", "gbdt", "ensemble"}
    assert "numpy" in model.manifest["libraries"]
    again = train(SAMPLES, tmp_path, name="n", members=("efficiency", "gbdt"), folds=3)
    assert again != folder


def test_too_little_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="at least"):
        train(SAMPLES[:2], tmp_path)
    with pytest.raises(TrainingError, match="families"):
        train([s for s in SAMPLES if s.family == "family0"], tmp_path)


def test_the_default_ensemble_names_known_predictors() -> None:
    from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS

    for member in DEFAULT_MEMBERS:
        assert new_predictor(member, seed=3).name == member
