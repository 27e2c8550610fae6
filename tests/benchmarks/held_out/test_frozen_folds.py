"""Splits: nothing leaks, nothing moves."""

import random

import numpy as np
import pytest
from held_out.frozen_folds import SPLITS, Fold, make_folds, torch_version
from held_out_steps import SPEEDS, corpus

from perfmodel.errors import InvalidInputError
from perfmodel.training.validation.held_out_folds import identity

SAMPLES = corpus()


def _left_out(fold: Fold, fact: str) -> tuple[set[str], set[str]]:
    def words(positions: np.ndarray) -> set[str]:
        chosen = [SAMPLES[i] for i in positions]
        return {s.family if fact == "family" else s.step.accelerator.name for s in chosen}

    return words(fold.train), words(fold.test)


@pytest.mark.parametrize("split", SPLITS)
def test_no_sample_is_on_both_sides(split: str) -> None:
    folds = make_folds(SAMPLES, split)
    assert folds
    for fold in folds:
        assert not set(fold.train.tolist()) & set(fold.test.tolist())


@pytest.mark.parametrize("split", ["unseen-family", "unseen-device-family"])
def test_no_family_is_on_both_sides(split: str) -> None:
    for fold in make_folds(SAMPLES, split):
        learned, asked = _left_out(fold, "family")
        assert not learned & asked


@pytest.mark.parametrize("split", ["unseen-device", "unseen-device-family"])
def test_the_device_that_is_left_out_is_asked_and_not_learned_from(split: str) -> None:
    for fold in make_folds(SAMPLES, split):
        learned, asked = _left_out(fold, "device")
        assert asked == {fold.device}
        assert fold.device not in learned


@pytest.mark.parametrize("split", ["unseen-family", "unseen-device", "random"])
def test_every_sample_is_asked_once(split: str) -> None:
    asked = np.concatenate([fold.test for fold in make_folds(SAMPLES, split)])
    assert sorted(asked.tolist()) == list(range(len(SAMPLES)))


def test_each_device_is_left_out_in_turn() -> None:
    assert {fold.device for fold in make_folds(SAMPLES, "unseen-device")} == set(SPEEDS)


def test_newer_software_is_asked_on_devices_known_with_older() -> None:
    (fold,) = make_folds(SAMPLES, "newer-software")
    assert {torch_version(SAMPLES[i]) for i in fold.test} == {(2, 9)}
    assert {torch_version(SAMPLES[i]) for i in fold.train} == {(2, 4)}
    # Slow-1 was only measured with the older one.
    assert {SAMPLES[i].step.accelerator.name for i in fold.test} == {"Mid-2", "Fast-4"}


@pytest.mark.parametrize("split", SPLITS)
def test_order_and_further_samples_move_nothing(split: str) -> None:
    def sides(samples: list) -> dict[str, set[str]]:
        return {
            fold.name: {identity(samples[i]) for i in fold.test}
            for fold in make_folds(samples, split)
        }

    shuffled = SAMPLES.copy()
    random.Random(3).shuffle(shuffled)
    whole = sides(shuffled)
    assert whole == sides(SAMPLES)
    fewer = [s for s in SAMPLES if not s.model.endswith("-0")]
    kept = {identity(s) for s in fewer}
    for name, asked in sides(fewer).items():
        assert asked == whole[name] & kept


def test_another_split_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="unseen-family"):
        make_folds(SAMPLES, "leave-one-out")
