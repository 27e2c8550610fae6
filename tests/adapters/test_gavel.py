"""Gavel's table, read back by a reader written after Gavel's, and the oracle."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from adapter_world import training
from waiting import PATIENCE_S, until

from perfmodel.adapters.ask import NoAnswerError, Service
from perfmodel.adapters.gavel import GavelJob, GavelTable, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.gavel_oracle import OracleThroughputs
from perfmodel.adapters.local import LocalAnswers
from perfmodel.estimator import Estimator
from perfmodel.importers.jobs.gavel_throughputs import read_gavel
from perfmodel.placement.sharing.colocation import _slowdown_beside
from perfmodel.placement.sharing.job_load import Loads
from perfmodel.placement.sharing.pair_model import PairModel

SMALL, WIDE, HUGE = "Small (batch size 64)", "Wide (batch size 32)", "Huge (batch size 1)"
WORKERS = {"k80": "K80", "v100": "V100-SXM2-16GB"}


def jobs() -> list[GavelJob]:
    return [
        GavelJob(job_type=SMALL, job=training("timm/small", 64), scale_factors=(1, 2, 4, 16)),
        GavelJob(job_type=WIDE, job=training("timm/wide", 32), scale_factors=(1, 2)),
        GavelJob(job_type=HUGE, job=training("timm/huge", 1), scale_factors=(1,)),
    ]


@pytest.fixture(scope="module")
def table(estimator: Estimator) -> GavelTable:
    return throughput_table(LocalAnswers(estimator), jobs(), WORKERS)


def tuple_key(text: str) -> tuple[str, int]:
    """Read a key as Gavel does: by this pattern."""
    match = re.match(r"\('(.*)', (\d+)\)", text)
    assert match is not None, text
    return match[1], int(match[2])


def as_gavel_reads_it(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for worker, entries in json.loads(path.read_text()).items():
        found[worker] = {
            tuple_key(key): {
                other if other == "null" else tuple_key(other): rate
                for other, rate in partners.items()
            }
            for key, partners in entries.items()
        }
    return found


def test_the_file_is_what_gavel_reads(table: GavelTable, tmp_path: Path) -> None:
    path = tmp_path / "simulation_throughputs.json"
    table.write(path)
    read = as_gavel_reads_it(path)
    assert read == table.rates
    assert list(read) == ["k80", "k80_unconsolidated", "v100", "v100_unconsolidated"]
    # Four scales of one job, two of another, one of the third.
    assert len(read["v100"]) == 7
    # At scale 1 three jobs have three partners each, at 2 two have two, at 4 and 16 one has one.
    pairs = sum(len(partners) - 1 for partners in read["v100"].values())
    assert pairs == 3 * 3 + 2 * 2 + 1 + 1


def test_a_pair_is_weighed_once_for_all_its_numbers_of_accelerators(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed: list[str] = []
    plainly = PairModel.slowdown

    def counted(model: PairModel, subjects: Loads, partners: Loads, kind: str) -> Any:
        weighed.append(kind)
        return plainly(model, subjects, partners, kind)

    monkeypatch.setattr(PairModel, "slowdown", counted)
    _slowdown_beside.cache_clear()
    found = throughput_table(LocalAnswers(estimator), jobs()[:2], WORKERS).rates["v100"]
    assert isinstance(found[SMALL, 1][WIDE, 1], list) and isinstance(found[SMALL, 16], dict)
    # Each of two jobs beside each of two, on two kinds.
    assert sorted(weighed) == ["K80"] * 4 + ["V100-SXM2-16GB"] * 4


def test_rates_add_up_the_steps_of_all_workers(table: GavelTable, estimator: Estimator) -> None:
    asked = LocalAnswers(estimator)
    [[one, four, spread, sixteen]] = asked.cells(
        [training("timm/small", 64)],
        ["V100", "4xV100", "4x(1xV100)", "2x(8xV100)"],
    )
    assert one and four and spread and sixteen
    rates = table.rates["v100"]
    assert rates[SMALL, 1]["null"] == pytest.approx(1 / one.step_time_s)
    assert rates[SMALL, 4]["null"] == pytest.approx(4 / four.step_time_s)
    assert rates[SMALL, 16]["null"] == pytest.approx(16 / sixteen.step_time_s)
    apart = table.rates["v100_unconsolidated"]
    assert apart[SMALL, 4]["null"] == pytest.approx(4 / spread.step_time_s)
    assert apart[SMALL, 4]["null"] < rates[SMALL, 4]["null"]
    assert apart[SMALL, 1]["null"] == rates[SMALL, 1]["null"]


def test_pairs_slow_each_other_down_and_mirror(table: GavelTable) -> None:
    for entries in table.rates.values():
        for key, partners in entries.items():
            for other, rate in partners.items():
                if other == "null":
                    continue
                assert isinstance(rate, list) and isinstance(other, tuple)
                assert key[1] == other[1]
                assert entries[other][key] == rate[::-1]
                alone = partners["null"]
                assert isinstance(alone, float) and 0 <= rate[0] <= alone
    assert table.rates["v100"][SMALL, 1][WIDE, 1] != [0.0, 0.0]


def test_zero_says_that_it_does_not_fit(table: GavelTable) -> None:
    # 4.3 GB of weights, as many gradients: 16 GB hold it alone, but not twice.
    assert table.rates["v100"][HUGE, 1]["null"] > 0  # type: ignore[operator]
    assert table.rates["v100"][HUGE, 1][HUGE, 1] == [0.0, 0.0]


def test_what_has_no_answer_is_named_and_left_out(estimator: Estimator) -> None:
    unknown = GavelJob(job_type="None", job=training("timm/none"), scale_factors=(1,))
    table = throughput_table(
        LocalAnswers(estimator), [unknown, jobs()[1]], {"v100": "V100"}, unconsolidated=False
    )
    assert ("None", 1) not in table.rates["v100"]
    assert "v100 ('None', 1) null" in table.unanswered
    assert table.rates["v100"][WIDE, 1].keys() == {"null", (WIDE, 1)}


def test_the_importer_reads_what_is_written(estimator: Estimator, tmp_path: Path) -> None:
    named = [
        GavelJob(
            job_type="ResNet-50 (batch size 64)",
            job=training("timm/small"),
            scale_factors=(1, 2),
        )
    ]
    path = tmp_path / "simulation_throughputs.json"
    written = throughput_table(LocalAnswers(estimator), named, WORKERS)
    written.write(path)
    read = read_gavel(path).placements
    alone = next(
        row
        for row in read
        if row.placement.accelerator_count == 2 and row.settings["worker"] == "v100"
        and not row.placement.shared_with
    )  # fmt: skip
    rate = written.rates["v100"]["ResNet-50 (batch size 64)", 2]["null"]
    assert alone.step_time_s == pytest.approx(2 / rate)  # type: ignore[operator]


def test_the_oracle_answers_look_ups_from_one_call(service: Service, table: GavelTable) -> None:
    asked = []

    class Counted:
        def cells(self, *args: Any) -> Any:
            asked.append(args)
            return service.cells(*args)

        memory_bytes = staticmethod(service.memory_bytes)

    oracle = OracleThroughputs(Counted(), jobs(), WORKERS)
    assert set(oracle) == set(table.rates) and len(oracle) == 4
    for worker, entries in table.rates.items():
        for key, partners in entries.items():
            assert oracle[worker][key] == partners
    assert len(asked) == 1
    assert oracle.unanswered == ()
    with pytest.raises(KeyError):
        oracle["v100"]["another job", 1]


def test_gavel_goes_on_without_the_service(failing: Service) -> None:
    measured = {"v100": {(SMALL, 1): {"null": 7.0, (WIDE, 1): [3.0, 4.0]}}}
    oracle = OracleThroughputs(failing, jobs(), WORKERS, fallback=measured)
    assert oracle["v100"][SMALL, 1]["null"] == 7.0
    assert oracle["v100"][SMALL, 1][WIDE, 1] == [3.0, 4.0]
    # No worker type is preferred where nothing is known, and no pair is packed.
    assert oracle["k80"][SMALL, 4]["null"] == oracle["v100"][SMALL, 4]["null"] == 4.0
    assert oracle["k80"][SMALL, 1][WIDE, 1] == [0.0, 0.0]
    assert oracle.unanswered == ("everything",)


def test_a_table_outlives_the_service(service: Service) -> None:
    class Fickle:
        """Answers until it is told not to."""

        now: Any = service

        def cells(self, *args: Any) -> Any:
            return self.now.cells(*args)

        def memory_bytes(self, name: str) -> Any:
            return self.now.memory_bytes(name)

    fickle = Fickle()
    oracle = OracleThroughputs(fickle, jobs()[1:2], WORKERS, refresh_s=0.0)
    before = oracle["v100"][WIDE, 2]["null"]
    fickle.now = Service("http://127.0.0.1:9", timeout_s=0.2)
    assert oracle["v100"][WIDE, 2]["null"] == before


def test_without_any_answer_an_export_says_so(failing: Service) -> None:
    with pytest.raises(NoAnswerError):
        throughput_table(failing, jobs(), WORKERS)


def test_types_without_a_workload_are_asked_by_name() -> None:
    [known, named] = gavel_jobs(["LM (batch size 20)", "A3C"])
    assert known.job["model"] == "zoo/lstm-lm" and known.job["sequence_length"] == 35
    assert named.job == {"job_type": "A3C", "mode": "training", "batch_size": 1}


def test_the_next_table_is_asked_for_while_the_last_one_answers(service: Service) -> None:
    asked, may_answer = [], threading.Event()

    class Slow:
        """Answers at once the first time, and later when it is told to."""

        memory_bytes = staticmethod(service.memory_bytes)

        def cells(self, *args: Any) -> Any:
            asked.append(args)
            if len(asked) > 1:
                may_answer.wait(PATIENCE_S)
            return service.cells(*args)

    oracle = OracleThroughputs(Slow(), jobs()[1:2], WORKERS, refresh_s=0.0)
    first = oracle["v100"][WIDE, 1]["null"]
    assert oracle["v100"][WIDE, 1]["null"] == first  # not held up by the second question
    may_answer.set()
    until(lambda: len(asked) >= 2)
