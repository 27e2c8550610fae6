"""What a manifest and a card say about a joint predictor."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import joint_world as world
import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.errors import TrainingError
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.training.model_card import CARD, joint_facts, model_card
from perfmodel.training.provenance import corpus_digest
from perfmodel.training.train import train
from perfmodel.types import Compiler

OWN = made_up.samples(families=4)
CORPUS = world.samples()
SETTINGS = {"folds": 2, "epochs": 2, "rounds": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(
        OWN, tmp_path_factory.mktemp("models"), members=("efficiency",), folds=2, seed=7,
        corpus=CORPUS, joint_settings=SETTINGS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, object]:
    return dict(ServingModel.load(folder).manifest)


def test_the_manifest_counts_what_was_learned_from(manifest: dict[str, object]) -> None:
    facts = manifest["joint"]
    assert isinstance(facts, dict)
    assert facts["samples"] == len(CORPUS) and facts["families"] == 6
    assert facts["sources"] == {"made-up": len(CORPUS)}
    assert facts["devices"] == {name: len(CORPUS) // 3 for name in sorted(world.KNOWN)}
    assert facts["data_digest"] == corpus_digest(CORPUS)
    usual = {"depth": 6, "learning_rate": 0.002, "shrinkage": 0.003}
    assert facts["settings"] == {**usual, **SETTINGS, "seed": 7}


def test_scores_are_those_of_families_left_out() -> None:
    predictor = JointPredictor(**SETTINGS).fit(CORPUS)
    scores = joint_facts(predictor, CORPUS)["scores"]
    assert scores["split"] == "leave-family-out"
    assert sum(s["samples"] for s in scores["regimes"].values()) == len(CORPUS)
    # By hand: predicted over measured is exp(-r) for a residual r = log(measured / predicted).
    predictor.residuals_ = np.full(len(CORPUS), np.log(1.25))
    for score in joint_facts(predictor, CORPUS)["scores"]["regimes"].values():
        assert (score["mape"], score["median_ape"]) == pytest.approx((0.2, 0.2))


def test_the_digest_tells_the_data_and_not_its_order() -> None:
    digest = corpus_digest(CORPUS)
    assert len(digest) == 64 and corpus_digest(CORPUS[::-1]) == digest
    first = CORPUS[0]
    changes = (
        replace(first, step_time_s=1.0),
        replace(first, step=replace(first.step, compiler=Compiler.INDUCTOR)),
        replace(first, step=replace(first.step, software={"torch": "2.5.0"})),
        replace(first, step=replace(first.step, accelerator=world.device("Gpu-New"))),
    )
    digests = {corpus_digest([change, *CORPUS[1:]]) for change in changes}
    assert len(digests | {digest}) == len(changes) + 1


def test_the_card_lies_beside_the_model(folder: Path, manifest: dict[str, object]) -> None:
    card = (folder / CARD).read_text()
    assert card == model_card(manifest)
    for words in (
        "# default",
        "seed 7",
        "joint predictor",
        "216 steps of 6 families",
        "Gpu-L (72)",
    ):
        assert words in card, words
    joint = manifest["joint"]
    assert isinstance(joint, dict)
    for regime, score in joint["scores"]["regimes"].items():
        assert f"| {regime} | {score['samples']} | {100 * score['mape']:.1f} % |" in card


def test_a_card_without_joint_predictor_does_not_name_one(manifest: dict[str, object]) -> None:
    own = {key: value for key, value in manifest.items() if key != "joint"}
    card = model_card(own)
    assert "All other devices" not in card and "## Limits" in card
    assert "made-up-cpu" in card


def test_the_manifest_is_plain_json(manifest: dict[str, object]) -> None:
    assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest


def test_the_joint_predictor_reports_before_the_members(tmp_path: Path) -> None:
    lines: list[str] = []
    train(
        OWN, tmp_path, members=("efficiency",), folds=2, progress=lines.append,
        corpus=CORPUS, joint_settings=SETTINGS,
    )  # fmt: skip
    # Two members without one fold each, one with all, and the line of the predictor itself.
    assert [JOINT in line or "member" in line for line in lines[:4]] == [True] * 4
    assert "216 steps" in lines[3] and any("efficiency" in line for line in lines[4:])


def test_a_corpus_of_one_family_is_refused(tmp_path: Path) -> None:
    one = [sample for sample in CORPUS if sample.family == "family0"]
    with pytest.raises(TrainingError, match="two families"):
        train(OWN, tmp_path, members=("efficiency",), folds=2, corpus=one)
    assert not list(tmp_path.iterdir()), "nothing is written"
