"""Searches for settings: nested, the same twice, gone on with after a kill, in the database."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import joint_world
import numpy as np
import pytest
import synthetic_workloads as made_up
from migrated import migrated_sqlite
from postgresql import PostgresqlServer

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.errors import TrainingError
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.registry import new_predictor
from perfmodel.store.artifacts import read_artifact
from perfmodel.store.retraining.tuning_journal import TuningJournalStore
from perfmodel.store.sql.connections import Connections
from perfmodel.training.train import train
from perfmodel.training.tuning.families import is_searched_on
from perfmodel.training.tuning.inner_folds import InnerFolds, Question
from perfmodel.training.tuning.spaces import NETWORK, SPACES, TREES, Real, Space, Whole
from perfmodel.training.tuning.study import Study
from perfmodel.training.tuning.tune import Tuned, tune

SAMPLES = made_up.samples(families=6)
CORPUS = joint_world.samples()[::3]
#: As little as can be chosen from.
SMALL: dict[str, Space] = {
    "gbdt": {"rounds": Whole(2, 40, 4), "learning_rate": Real(0.05, 0.5, 0.1)},
    NETWORK: {"epochs": Whole(1, 2, 1), "learning_rate": Real(1e-3, 4e-3, 2e-3)},
    TREES: {"rounds": Whole(2, 30, 3), "depth": Whole(2, 6, 4)},
}


@contextlib.contextmanager
def journals(url: str) -> Iterator[TuningJournalStore]:
    connections = Connections(url)
    try:
        yield TuningJournalStore(connections)
    finally:
        connections.close()


def tuned(url: str, *, samples: Sequence[Sample] = SAMPLES, trials: int = 4, **more: Any) -> Tuned:
    settings = {"members": ("gbdt", "efficiency"), "spaces": SMALL, **more}
    with journals(url) as kept:
        return tune(samples, kept, trials=trials, **settings)


def test_what_is_usual_is_what_learners_do_by_themselves() -> None:
    joint = JointPredictor().settings
    for learner, space in SPACES.items():
        own = joint if learner in (NETWORK, TREES) else new_predictor(learner).settings  # type: ignore[attr-defined]
        assert {name: one.usual for name, one in space.items()} == {
            name: getattr(own, name) for name in space
        }
        assert all(one.low <= one.usual <= one.high for one in space.values())


def test_what_was_chosen_is_the_best_that_was_tried_and_no_worse_than_usual(tmp_path: Path) -> None:
    found = tuned(migrated_sqlite(tmp_path), corpus=CORPUS)
    assert found.facts.keys() == {"gbdt", NETWORK, TREES}
    for facts in found.facts.values():
        scores = [one["score"] for one in facts["trials"]]
        assert len(scores) == 4 and facts["score"] == min(scores)
        assert facts["usual_score"] == scores[0]
        assert facts["chosen"] in [one["settings"] for one in facts["trials"]]
        assert len({json.dumps(one["settings"]) for one in facts["trials"]}) > 1
    assert found.members.keys() == {"gbdt"}
    assert found.joint.keys() == {"epochs", "learning_rate", "rounds", "depth"}
    # Four trees were far too few for trees of this law.
    assert found.facts["gbdt"]["score"] < 0.8 * found.facts["gbdt"]["usual_score"]


def test_no_family_that_is_asked_was_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[set[str]]] = {"fitted": [], "asked": []}
    family_of = {id(one.workload): one.family for one in SAMPLES}

    class Spy:
        def fit(self, samples: Any) -> None:
            seen["fitted"].append({one.family for one in samples})

        def predict(self, workloads: Any) -> Any:
            seen["asked"].append({family_of[id(one)] for one in workloads})
            return np.ones(len(workloads))

    monkeypatch.setattr(
        "perfmodel.training.tuning.inner_folds.new_predictor", lambda *a, **k: Spy()
    )
    folds = InnerFolds.of(SAMPLES, CORPUS, seed=0)
    for fold in range(3):
        folds.errors(Question(learner="gbdt", settings={}, fold=fold))
    # By their names these families fall into two of the three folds; an empty one is not asked.
    assert [a & f for a, f in zip(seen["asked"], seen["fitted"], strict=True)] == [set()] * 2
    # Some families take no part, so that something is left to judge what is found.
    own = {one.family for one in SAMPLES}
    assert set().union(*seen["asked"]) == {one for one in own if is_searched_on(one)} < own
    # Of the joint predictor: the fold of a step is that of its family.
    assert folds.task is not None
    by_family: dict[str, set[int]] = {}
    ordered = sorted(CORPUS, key=_order)
    for one, fold in zip(ordered, folds.task.fold.tolist(), strict=True):
        by_family.setdefault(one.family, set()).add(fold)
    assert {len(found) for found in by_family.values()} == {1}


def _order(sample: Any) -> float:
    from perfmodel.predictors.folds import unit_hash
    from perfmodel.training.validation.held_out_folds import identity

    return unit_hash(f"tuning:{identity(sample)}")


def test_the_same_search_chooses_the_same_twice(tmp_path: Path) -> None:
    first, second, other = (migrated_sqlite(_new(tmp_path, name)) for name in "abc")
    found = tuned(first, trials=3)
    assert tuned(second, trials=3, engine=LocalEngine(workers=2)) == found
    assert tuned(other, trials=3, seed=1).facts != found.facts


def test_a_search_is_read_once_it_is_done_and_goes_on_with_more(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    said: list[str] = []
    three = tuned(url, trials=3)
    assert tuned(url, trials=3, progress=said.append) == three and said == []
    more = tuned(url, trials=5, progress=said.append)
    assert said[0].startswith("tried settings of gbdt, 4 of 5") and len(said) == 2
    assert more.facts["gbdt"]["trials"][:3] == three.facts["gbdt"]["trials"]
    assert more == tuned(migrated_sqlite(_new(tmp_path, "other")), trials=5)


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def test_other_data_is_another_search(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    one = tuned(url, trials=1).facts["gbdt"]["study"]
    other = tuned(url, samples=SAMPLES[1:], trials=1)
    assert len(one) == 64 and other.facts["gbdt"]["study"] != one


def test_two_processes_at_one_search_count_each_trial_once(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with journals(url) as first, journals(url) as second:
        mine, theirs = (Study(kept, "s" * 64, SMALL["gbdt"]) for kept in (first, second))
        (number, settings), (other, _) = mine.ask(), theirs.ask()
        assert settings == {"rounds": 4, "learning_rate": 0.1} and number != other
        mine.tell(number, 0.5)
        theirs.tell(other, 0.4)
        assert [one.score for one in mine.scored()] == [0.5]
        assert mine.scored() == theirs.scored()
        # What they try next is the same.
        assert mine.ask()[1] == theirs.ask()[1]


def test_one_family_cannot_be_searched_on(tmp_path: Path) -> None:
    alone = [one for one in SAMPLES if one.family == "family0"]
    with pytest.raises(TrainingError, match="families"):
        tuned(migrated_sqlite(tmp_path), samples=alone)


#: It stays at its third trial for whoever kills it, however late.
CHILD = (
    "import itertools, sys, time, test_tune as t\n"
    "trials = itertools.count(1)\n"
    "def slowly(line):\n"
    "    print(line, flush=True)\n"
    "    time.sleep(3600 if next(trials) == 3 else 0.05)\n"
    "t.tuned(sys.argv[1], trials=5, progress=slowly)"
)


def test_killed_at_any_trial_it_goes_on_and_chooses_the_same(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    undisturbed = tuned(migrated_sqlite(tmp_path), trials=5)
    url = postgresql.migrated_database()
    paths = [Path(__file__).parent, Path(__file__).parents[2]]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, url], stdout=subprocess.PIPE, env=environment
    )
    assert child.stdout is not None
    for _ in range(2):
        assert child.stdout.readline()
    time.sleep(0.08)  # it is at the third by now, or between two
    child.send_signal(signal.SIGKILL)
    child.communicate()
    said: list[str] = []
    assert tuned(url, trials=5, progress=said.append) == undisturbed
    assert 2 <= len(said) <= 3


def test_versions_say_how_their_settings_were_searched(tmp_path: Path) -> None:
    found = tuned(migrated_sqlite(tmp_path), corpus=CORPUS, trials=2)
    plain: dict[str, Any] = {
        "members": ("gbdt", "efficiency"), "folds": 2, "corpus": CORPUS,
        "created_at": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    version = train(SAMPLES, tmp_path / "models", tuned=found, joint_settings={"folds": 2}, **plain)
    manifest = read_artifact(version).manifest
    assert manifest["tuning"] == found.facts
    settings = manifest["joint"]["settings"]
    assert {name: settings[name] for name in found.joint} == found.joint
    assert manifest["members"]["gbdt"]["trees"] == found.members["gbdt"]["rounds"]
    assert (
        "tuning"
        not in read_artifact(
            train(SAMPLES, tmp_path / "usual", joint_settings={"epochs": 1, "rounds": 2}, **plain)
        ).manifest
    )
