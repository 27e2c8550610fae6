"""Judge a version against another one by the gate of retraining, and print what was found.

For versions that `perfmodel train` made, which learn from everything: both answer what they learned
from by members that had not seen the family. Sketches are kept (PERFMODEL_CACHE); of the published
steps the 4,000 whose keys come first are asked.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

from perfmodel.retraining.data.learning_data import LearningData
from perfmodel.retraining.judging.gathering import evidence_from, gather
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.state.database import Database
from perfmodel.training.gate.gate import decide
from perfmodel.training.samples.public_data import load_data
from perfmodel.training.samples.samples import load_samples


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/judged.db")
        evidence = gather(
            arguments.candidate,
            arguments.serving,
            _learned(arguments.data, arguments.profiles),
            None,
            database,
            print,
        )
        database.close()
    # Answers of a version that was just loaded have no others to be compared with.
    evidence["candidate"]["golden_rows_off"] = 0
    candidate, serving, sets = evidence_from(evidence)
    decision = decide(candidate, serving, sets)
    print(decision.report())
    for judged in sets:
        for version in (candidate, serving):
            error = np.abs(version.answers[judged.name].time_s / judged.measured_s - 1.0)
            print(
                f"{version.version}, {judged.name}: mean {100 * error.mean():.1f} %, "
                f"median {100 * np.median(error):.1f} % of {len(error)}"
            )
    raise SystemExit(0 if decision.accepted else 1)


def _learned(data: Path | None, profiles: Path) -> LearningData:
    """Return everything that can be learned from; nothing is kept back."""
    found = load_data(data, profiles=profiles, progress=print)
    return LearningData(
        samples=load_samples(ProfileStore(profiles)).samples,
        corpus=found.samples,
        operators=(),
        kept_back=(),
        kept_back_steps=(),
        newest=(),
        dropped=found.dropped,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("candidate", type=Path, help="folder of a version")
    parser.add_argument("serving", type=Path, help="folder of the version to compare with")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
