"""Who is asked about published steps: members that had not seen the family, where they differ."""

from __future__ import annotations

from pathlib import Path

import joint_world as world
import pytest
import synthetic_workloads as made_up

from perfmodel.retraining.judging.judging_sets import unseen_families
from perfmodel.retraining.judging.version_at_hand import VersionAtHand, version_at
from perfmodel.training.train import train

CORPUS = world.samples()
SMALL = {"folds": 2, "epochs": 1, "rounds": 2}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[VersionAtHand]:
    samples = made_up.samples(families=4)
    return [
        version_at(
            train(
                samples, tmp_path_factory.mktemp("models"), members=("efficiency",), folds=2,
                seed=seed, corpus=CORPUS, joint_settings=SMALL,
            )
        )
        for seed in (1, 2)
    ]  # fmt: skip


def test_members_that_were_taken_over_are_not_judged_twice(versions: list[VersionAtHand]) -> None:
    one, other = versions
    assert unseen_families(CORPUS, one, one) is None
    asked = unseen_families(CORPUS, other, one)
    assert asked is not None and len(asked.judged.keys) == len(CORPUS)
    assert asked.answer(one).time_s.tolist() != asked.answer(other).time_s.tolist()


def test_a_version_without_a_joint_predictor_answers_none(
    versions: list[VersionAtHand], tmp_path: Path
) -> None:
    plain = version_at(
        train(made_up.samples(families=4), tmp_path, members=("efficiency",), folds=2)
    )
    assert unseen_families(CORPUS, versions[0], plain) is None
