from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from perfmodel.errors import TrainingError
from perfmodel.placement.sharing.pair_model import PairModel
from perfmodel.training.placement_fits.fit_colocation import fit, fit_pairs
from perfmodel.training.placement_rows.pair_rows import read_pairs

BATCHES = (16, 32, 64)
#: Fixed and per-sample seconds of made-up jobs on the slow kind; the other is four times as fast.
JOBS = {"ResNet-50": (0.02, 4e-3), "LM": (0.03, 1e-3), "Transformer": (0.05, 2e-3)}
SPEED = 4.0


def _step_s(name: str, batch: int, kind: str) -> float:
    fixed_s, per_sample_s = JOBS[name]
    return fixed_s + per_sample_s * batch / (SPEED if kind == "v100" else 1.0)


def _share(name: str, batch: int, kind: str) -> float:
    return 1 - JOBS[name][0] / _step_s(name, batch, kind)


def _table(*, holes: float = 0.0) -> dict[str, dict[str, dict[str, object]]]:
    """Pairs of a made-up law: 1 + 1.2 u_i u_j, and a factor 1.3 beside ResNet-50."""
    rng, cells = np.random.default_rng(0), list(itertools.product(JOBS, BATCHES))
    table: dict[str, dict[str, dict[str, object]]] = {}
    for kind in ("k80", "v100"):
        rates = {cell: 1 / _step_s(*cell, kind) for cell in cells}
        rows: dict[str, dict[str, object]] = {_key(cell): {"null": rates[cell]} for cell in cells}
        for one, other in itertools.combinations_with_replacement(cells, 2):
            if rng.random() < holes:
                continue
            pair = [rates[a] / _slowdown(a, b, kind) for a, b in ((one, other), (other, one))]
            rows[_key(one)][_key(other)] = pair
            rows[_key(other)][_key(one)] = pair[::-1]
        table[kind] = rows
    return table


def _slowdown(one: tuple[str, int], other: tuple[str, int], kind: str) -> float:
    factor = 1.3 if other[0] == "ResNet-50" else 1.0
    return factor * (1 + 1.2 * _share(*one, kind) * _share(*other, kind))


def _key(cell: tuple[str, int]) -> str:
    return str((f"{cell[0]} (batch size {cell[1]})", 1))


def _write(folder: Path, table: object) -> Path:
    (folder / "gavel").mkdir()
    (folder / "gavel" / "simulation_throughputs.json").write_text(json.dumps(table))
    return folder


def test_both_directions_are_read_with_what_is_known_alone(tmp_path: Path) -> None:
    pairs, shares = read_pairs(_write(tmp_path, _table()))
    assert len(pairs) == 2 * 9 * 9  # 9 jobs on 2 kinds, each beside each, both directions
    assert set(pairs.kinds.tolist()) == {"K80", "V100-SXM2-16GB"}
    row = pairs.subjects.tolist().index("LM (batch size 32)")
    assert pairs.subject_loads.step_time_s[row] == pytest.approx(_step_s("LM", 32, "k80"))
    # The other kind is taken to be as fast as the job that gains most says: a little below 4.
    assert shares["K80"]["LM (batch size 32)"] == pytest.approx(_share("LM", 32, "k80"), abs=0.1)


def test_jobs_that_did_not_run_teach_nothing(tmp_path: Path) -> None:
    table = _table()
    one, other = _key(("LM", 16)), _key(("LM", 32))
    table["k80"][one][other] = [0.0, 2.0]
    table["k80"][other][one] = [2.0, 0.0]
    assert len(read_pairs(_write(tmp_path, table))[0]) == 2 * 9 * 9 - 2


def test_a_table_without_pairs_is_refused(tmp_path: Path) -> None:
    alone = {kind: {k: {"null": r["null"]} for k, r in t.items()} for kind, t in _table().items()}
    with pytest.raises(TrainingError, match="no pair"):
        read_pairs(_write(tmp_path, alone))


def test_pairs_that_are_missing_are_filled_in(tmp_path: Path) -> None:
    known, _ = read_pairs(_write(tmp_path, _table(holes=0.3)))
    (tmp_path / "whole").mkdir()
    whole, _ = read_pairs(_write(tmp_path / "whole", _table()))
    seen = set(zip(known.kinds, known.subjects, known.partners, strict=True))
    missing = np.array(
        [c not in seen for c in zip(whole.kinds, whole.subjects, whole.partners, strict=True)]
    )
    model = fit_pairs(known)
    for kind in ("K80", "V100-SXM2-16GB"):
        asked = whole.take(missing & (whole.kinds == kind))
        slow = model.slowdown(asked.subject_loads, asked.partner_loads, kind)
        assert len(asked) > 10
        assert np.mean(np.abs(slow / np.exp(asked.log_slowdown) - 1)) < 0.03


def test_the_constants_can_be_written_and_say_where_they_come_from(tmp_path: Path) -> None:
    found = json.loads(json.dumps(fit(_write(tmp_path, _table()))))
    assert found["rows"] == 162 and found["command"].endswith("--part colocation")
    assert set(found) == {"constants", "source", "rows", "command", "date"}
    model = PairModel.from_constants(found["constants"])
    assert set(model.families) == set(JOBS) and len(model.log2_batch) == 9
    assert [len(s) for s in found["constants"]["device_share"].values()] == [9, 9]


@pytest.mark.skipif("PERFMODEL_DATA" not in os.environ, reason="PERFMODEL_DATA is not set")
def test_the_shipped_constants_are_those_of_the_public_table() -> None:
    from perfmodel.placement.fitted import fitted

    again = fit(Path(os.environ["PERFMODEL_DATA"]))["constants"]
    shipped = PairModel.from_constants(fitted("colocation"))
    assert again["law"] == pytest.approx(PairModel.to_constants(shipped)["law"], rel=1e-3)
