"""What reporters who lie do to answers about the jobs of others, and whether they are named.

    python benchmarks/reporters.py [--reporters 10] [--seeds 3]

A service with the shipped model gets observations from so many reporters, each of jobs of its own
on one kind of card: first all true, then some of them twice as long. Jobs that nobody observed are
asked about both times.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drift_report.lying import JOBS_EACH, Lied, Reporters
from fastapi.testclient import TestClient

from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.store.state.database import Database
from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.app import create_app
from service.settings import Settings

_MODELS = Path(__file__).resolve().parents[1] / "models"
_NAMES = ("zoo/resnet18-cifar", "zoo/lstm-lm", "zoo/resnet50-v1.5")
_OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adafactor", "lamb")
_PRECISIONS = ("fp32", "amp_fp16", "fp16")
#: Jobs that are asked about and never observed.
_OTHERS = 6


def jobs() -> Iterator[dict[str, Any]]:
    """Yield jobs of unlike families."""
    for precision, optimizer, name in itertools.product(_PRECISIONS, _OPTIMIZERS, _NAMES):
        yield {
            "model": name, "mode": "training", "batch_size": 16, "optimizer": optimizer,
            "precision": precision,
        }  # fmt: skip


def main() -> None:
    """Print how far answers moved, by the share of those who lie."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reporters", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = KeyFile(folder / "keys.json")
        tokens = {}
        for number in range(asked.reporters):
            token, key = new_key(f"reporter {number}", ["observe"], created_at="2026-01-01")
            keys.add(key)
            tokens[key.key_id] = token
        administrator, key = new_key("admin", ["admin"], created_at="2026-01-01")
        keys.add(key)
        database = f"sqlite:///{folder / 'reporters.db'}"
        graphs = GraphLibrary(capture=capture_in_process, database=Database(database))
        estimator = Estimator.from_folder(_MODELS, graphs=graphs)
        settings = Settings(database=database, keys=folder / "keys.json", drift_poll_s=0.2)
        with TestClient(create_app(estimator, settings)) as client:
            reporters = Reporters(
                service=client,
                tokens=tokens,
                administrator=administrator,
                machine="T4",
                jobs=list(itertools.islice(jobs(), JOBS_EACH * asked.reporters + _OTHERS)),
            )
            _tell(reporters, asked.seeds)


def _tell(reporters: Reporters, seeds: int) -> None:
    print("lying  moved: worst   mean", flush=True)
    for share in (0.1, 0.2, 0.3, 0.4):
        for seed in range(seeds):
            found: Lied = reporters.lie(share, seed=seed)
            print(f"{share:5.0%}        {found.said}", flush=True)


if __name__ == "__main__":
    main()
