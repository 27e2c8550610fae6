"""What Gavel has measured comes back as it is, and says something of the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from adapter_world import training
from published_files import published

from perfmodel.adapters.ask import Cell, Service
from perfmodel.adapters.gavel import GavelJob, GavelTable, read_rates, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.gavel_oracle import OracleThroughputs
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.measured.gavel_rates import MeasuredRates
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator

SMALL, WIDE, HUGE = "Small (batch size 64)", "Wide (batch size 32)", "Huge (batch size 1)"
#: Known by its name alone.
NAMED = "Game (batch size 4)"
WORKERS = {"k80": "K80", "v100": "V100-SXM2-16GB"}
#: No rate that a step time gives back to the last digit.
ODD = 1.1


def jobs() -> list[GavelJob]:
    return [
        GavelJob(job_type=SMALL, job=training("timm/small", 64), scale_factors=(1, 2, 4)),
        GavelJob(job_type=WIDE, job=training("timm/wide", 32), scale_factors=(1, 2)),
        GavelJob(job_type=HUGE, job=training("timm/huge", 1), scale_factors=(1,)),
        GavelJob(
            job_type=NAMED,
            job={"job_type": "Game", "mode": "training", "batch_size": 4},
            scale_factors=(1, 2),
        ),
    ]


@pytest.fixture(scope="module")
def answers(estimator: Estimator) -> LocalAnswers:
    return LocalAnswers(estimator)


def entries(table: Mapping[str, Any]) -> dict[tuple[Any, ...], Any]:
    return {
        (worker, key, partner): rate
        for worker, found in table.items()
        for key, partners in found.items()
        for partner, rate in partners.items()
    }


@pytest.fixture(scope="module")
def everything(answers: LocalAnswers) -> dict[str, Any]:
    """Return a whole table as if it had been measured: no entry as anything would predict it."""
    named = {worker: {(NAMED, 1): {"null": 3.0}, (NAMED, 2): {"null": 5.0}} for worker in WORKERS}
    table = throughput_table(answers, jobs(), WORKERS, observed=named)
    assert table.unanswered == ()
    found: dict[str, Any] = {}
    for (worker, key, partner), rate in entries(table.rates).items():
        odd = [each * ODD for each in rate] if isinstance(rate, list) else rate * ODD
        found.setdefault(worker, {}).setdefault(key, {})[partner] = odd
    return found


def test_with_everything_measured_the_table_is_the_measurement(
    answers: LocalAnswers, service: Service, everything: dict[str, Any], tmp_path: Path
) -> None:
    for who in (answers, service):
        table = throughput_table(who, jobs(), WORKERS, observed=everything)
        assert table.rates == everything
        assert table.unanswered == ()
    # And through Gavel's own file.
    table.write(tmp_path / "rates.json")
    assert read_rates(tmp_path / "rates.json") == everything


def test_a_part_comes_back_as_it_is_and_moves_the_rest(
    answers: LocalAnswers, everything: dict[str, Any]
) -> None:
    plain = throughput_table(answers, jobs(), WORKERS).rates
    alone = plain["v100"][SMALL, 1]["null"]
    assert isinstance(alone, float)
    measured = {"v100": {(SMALL, 1): {"null": alone / 3, (WIDE, 1): [alone / 4, 5.5]}}}
    table = throughput_table(answers, jobs(), WORKERS, observed=measured).rates
    given = entries(measured)
    assert given == {entry: entries(table)[entry] for entry in given}
    # The pair is one measurement, from either side.
    assert table["v100"][WIDE, 1][SMALL, 1] == [5.5, alone / 4]
    # One accelerator is the same spread out or not.
    assert table["v100_unconsolidated"][SMALL, 1] == table["v100"][SMALL, 1]
    # Three times slower than predicted alone: slower on two as well, and on another kind.
    for worker in ("v100", "k80"):
        before, after = plain[worker][SMALL, 2]["null"], table[worker][SMALL, 2]["null"]
        assert isinstance(before, float) and isinstance(after, float)
        assert after < 0.8 * before


def test_a_pair_is_not_taken_for_the_step_of_a_job_alone(answers: LocalAnswers) -> None:
    plain = throughput_table(answers, jobs(), WORKERS).rates["v100"][SMALL, 1]
    measured = {"v100": {(SMALL, 1): {(WIDE, 1): [plain["null"] / 20, 1.0]}}}  # type: ignore[operator]
    table = throughput_table(answers, jobs(), WORKERS, observed=measured).rates["v100"][SMALL, 1]
    assert table["null"] == plain["null"]
    assert table[WIDE, 1] == [plain["null"] / 20, 1.0]  # type: ignore[operator]


def test_a_name_is_answered_once_it_was_measured(answers: LocalAnswers) -> None:
    [*_, named] = jobs()
    nothing = throughput_table(answers, [named], WORKERS)
    assert nothing.rates == {worker: {} for worker in nothing.rates}
    assert f"k80 {(NAMED, 1)} null" in nothing.unanswered
    measured = {"v100": {(NAMED, 1): {"null": 3.0}}}
    some = throughput_table(answers, [named, jobs()[0]], WORKERS, observed=measured)
    assert some.unanswered == ()
    assert some.rates["v100"][NAMED, 1]["null"] == 3.0
    assert 0 < some.rates["k80"][NAMED, 1]["null"] < 3.0  # type: ignore[operator]
    for partner in (NAMED, SMALL):
        own, _ = some.rates["v100"][NAMED, 1][partner, 1]  # type: ignore[misc]
        assert 0 < own < 3.0


def test_what_did_not_run_stays_zero_and_says_nothing_of_others(answers: LocalAnswers) -> None:
    measured = {"k80": {(SMALL, 1): {"null": 0.0, (WIDE, 1): [0.0, 0.0]}}}
    plain = throughput_table(answers, jobs(), WORKERS).rates
    table = throughput_table(answers, jobs(), WORKERS, observed=measured).rates
    assert table["k80"][SMALL, 1]["null"] == 0.0
    assert table["k80"][WIDE, 1][SMALL, 1] == [0.0, 0.0]
    assert table["v100"] == plain["v100"] and table["k80"][SMALL, 2] == plain["k80"][SMALL, 2]


def test_what_did_not_run_alone_runs_beside_nobody(answers: LocalAnswers) -> None:
    measured = {"k80": {(SMALL, 2): {"null": 0.0}, (SMALL, 1): {"null": 0, (WIDE, 1): [0.4, 0.7]}}}
    plain = throughput_table(answers, jobs(), WORKERS).rates
    table = throughput_table(answers, jobs(), WORKERS, observed=measured)
    for worker, scale in (("k80", 2), ("k80", 1), ("k80_unconsolidated", 1)):
        one, other = (SMALL, scale), (WIDE, scale)
        # What was measured stands, whatever else was.
        pair = [0.4, 0.7] if scale == 1 else [0.0, 0.0]
        assert (table.rates[worker][one][other], table.rates[worker][other][one]) == (
            pair, pair[::-1],
        )  # fmt: skip
        # So do pairs with itself, and with a name of which nobody knows anything else.
        assert table.rates[worker][one][one] == table.rates[worker][NAMED, scale][one] == [0.0, 0.0]
        assert table.rates[worker][other]["null"] == plain[worker][other]["null"] != 0.0
    for worker, scale in (("k80", 4), ("k80_unconsolidated", 2), ("v100", 2)):
        assert table.rates[worker][SMALL, scale] == plain[worker][SMALL, scale]


def test_a_pair_that_ran_is_zeroed_nowhere_where_as_much_memory_is(answers: LocalAnswers) -> None:
    two_huge = [GavelJob(job_type=HUGE, job=training("timm/huge", 1), scale_factors=(1, 2))]
    kinds = {**WORKERS, "p4": "P4"}
    plain = throughput_table(answers, two_huge, kinds).rates
    for worker in kinds:
        for scale in (1, 2):
            assert plain[worker][HUGE, scale][HUGE, scale] == [0.0, 0.0]
    # On the P4 it is predicted not to fit alone either.
    assert plain["p4"][HUGE, 1]["null"] == 0.0
    measured = {"v100": {(HUGE, 1): {(HUGE, 1): [0.5, 0.5]}}, "p4": {(HUGE, 1): {"null": 0.25}}}
    table = throughput_table(answers, two_huge, kinds, observed=measured).rates
    assert table["v100"][HUGE, 1][HUGE, 1] == [0.5, 0.5]
    [own, other] = table["v100"][HUGE, 2][HUGE, 2]  # type: ignore[misc]
    assert own == other > 0
    # A K80 has 12 GB, a P4 8: that two of them ran in 16 says nothing of those.
    assert table["k80"][HUGE, 1][HUGE, 1] == [0.0, 0.0]
    assert table["p4"][HUGE, 2]["null"] > 0 and table["p4"][HUGE, 2][HUGE, 2] == [0.0, 0.0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"p100": {(SMALL, 1): {"null": 1.0}}}, r"worker type 'p100'.*: k80, v100"),
        ({"v100": {(SMALL, 1): {"null": -1.0}}}, r"v100 \('Small.*zero or above; got -1.0"),
        ({"v100": {(SMALL, 1): {"null": float("nan")}}}, "zero or above; got nan"),
        ({"v100": {(SMALL, 1): {"null": True}}}, "zero or above; got True"),
        ({"v100": {(SMALL, 1): {"null": [1.0, 2.0]}}}, r"zero or above; got \[1.0, 2.0\]"),
        ({"v100": {(SMALL, 1): {(WIDE, 1): 1.0}}}, r"pair of rates.*1\.0"),
        ({"v100": {(SMALL, 1): {(WIDE, 1): [1.0, -2.0]}}}, "zero or above; got -2.0"),
        ({"v100": {("Other", 1): {"null": 1.0}}}, r"'Other'.*not among the jobs: Small"),
        ({"v100": {(SMALL, 1): {("Other", 1): [1.0, 2.0]}}}, r"'Other'.*not among the jobs"),
        ({"v100": {(SMALL, 1): {(WIDE, 2): [1.0, 2.0]}}}, "take as many of them"),
        ({"v100": {f"({SMALL!r}, 1)": {"null": 1.0}}}, "its type and its accelerators"),
        ({"v100": {(SMALL, 0): {"null": 1.0}}}, "its type and its accelerators"),
    ],
)
def test_measurements_that_cannot_be_are_refused(
    wrong: dict[str, Any], said: str, answers: LocalAnswers
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        throughput_table(answers, jobs(), WORKERS, observed=wrong)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    for text in ("[]", "{", '{"v100": {"not a key": {"null": 1.0}}}', '{"v100": 3}'):
        (tmp_path / "rates.json").write_text(text)
        with pytest.raises(InvalidInputError, match="no table of worker type"):
            read_rates(tmp_path / "rates.json")


def test_the_least_memory_counts_in_which_jobs_ran() -> None:
    given = {
        "k80": {(SMALL, 1): {(WIDE, 1): [0.0, 0.0]}},
        "v100": {(SMALL, 1): {(WIDE, 1): [2.0, 1.0]}, (SMALL, 2): {"null": 3.0}},
    }
    measured = MeasuredRates(given, [SMALL, WIDE], ["k80", "v100"])
    memory = {"k80": 12e9, "v100": 16e9}
    assert measured.ran_in(SMALL, (WIDE, 2), memory) == 16e9
    assert measured.ran_in(WIDE, (SMALL, 1), memory) == 16e9
    assert measured.ran_in(SMALL, "null", memory) == 16e9
    assert measured.ran_in(WIDE, (WIDE, 1), memory) is None
    assert measured.ran_in(SMALL, "null", {**memory, "v100": None}) is None


def test_the_oracle_holds_what_was_measured(service: Service) -> None:
    measured: dict[str, Any] = {"v100": {(SMALL, 1): {"null": 7.0, (WIDE, 1): [3.0, 4.0]}}}
    oracle = OracleThroughputs(service, jobs(), WORKERS, observed=measured, refresh_s=3600)
    plain = OracleThroughputs(service, jobs(), WORKERS, refresh_s=3600)
    assert oracle["v100"][SMALL, 1]["null"] == 7.0
    assert oracle["v100"][WIDE, 1][SMALL, 1] == [4.0, 3.0]
    assert oracle["k80"][SMALL, 4]["null"] != plain["k80"][SMALL, 4]["null"]
    # Of a name nothing is known: one step a second on average, and as fast on each kind as others
    # are, and no pair.
    slow, fast = (oracle[name][NAMED, 2]["null"] for name in ("k80", "v100"))
    assert slow != fast
    spread = [oracle[f"{name}_unconsolidated"][NAMED, 2]["null"] for name in ("k80", "v100")]
    assert slow * fast * spread[0] * spread[1] == pytest.approx(2.0**4)
    assert oracle["k80"][NAMED, 2][SMALL, 2] == [0.0, 0.0]
    assert any(NAMED in entry for entry in oracle.unanswered)
    with pytest.raises(InvalidInputError, match="p100"):
        OracleThroughputs(service, jobs(), WORKERS, observed={"p100": {(SMALL, 1): {"null": 1.0}}})


def test_the_oracle_holds_what_was_measured_without_the_service(failing: Service) -> None:
    measured: dict[str, Any] = {"v100": {(SMALL, 1): {"null": 7.0}}}
    oracle = OracleThroughputs(
        failing, jobs(), WORKERS, observed=measured,
        fallback={"v100": {(SMALL, 1): {"null": 9.0}, (SMALL, 2): {"null": 12.0}}},
    )  # fmt: skip
    assert oracle["v100"][SMALL, 1]["null"] == 7.0
    assert oracle["v100"][SMALL, 2]["null"] == 12.0
    # On the other kind nothing is known of it: no policy prefers one of the two.
    assert oracle["k80"][SMALL, 1]["null"] == pytest.approx(7.0)
    assert oracle["k80"][SMALL, 2]["null"] == pytest.approx(12.0)
    assert oracle["k80"][WIDE, 2]["null"] == 2.0


def test_what_is_measured_later_counts_when_the_table_is_asked_for_again() -> None:
    class Still:
        """Answers with one step a second."""

        memory_bytes = staticmethod(lambda name: 16e9)

        def cells(self, jobs: Any, placements: Any, observations: Any = ()) -> Any:
            cell = Cell(samples_per_second=1.0, step_time_s=1.0)
            return [[cell for _ in placements] for _ in jobs]

    measured: dict[str, Any] = {}
    oracle = OracleThroughputs(Still(), jobs()[:1], WORKERS, observed=measured, refresh_s=3600)
    assert oracle["v100"][SMALL, 1]["null"] == 1.0
    measured["v100"] = {(SMALL, 1): {"null": 7.0}}
    assert oracle["v100"][SMALL, 1]["null"] == 1.0
    oracle.refresh()
    assert oracle["v100"][SMALL, 1]["null"] == 7.0
    # What cannot be read is passed over; what was read before stands.
    measured["v100"][SMALL, 2] = {"null": -1.0}
    oracle.refresh()
    assert oracle["v100"][SMALL, 1]["null"] == 7.0 and oracle["v100"][SMALL, 2]["null"] == 2.0


def test_a_table_without_pairs_still_holds_measured_ones(answers: LocalAnswers) -> None:
    measured = {"v100": {(SMALL, 1): {(WIDE, 1): [3.0, 4.0]}, (WIDE, 4): {"null": 8.0}}}
    table: GavelTable = throughput_table(
        answers, jobs(), WORKERS, pairs=False, unconsolidated=False, observed=measured
    )
    assert table.rates["v100"][SMALL, 1].keys() == {"null", (WIDE, 1)}
    assert table.rates["v100"][WIDE, 4] == {"null": 8.0}
    assert json.loads(json.dumps(table.to_json()))["v100"][f"({WIDE!r}, 4)"] == {"null": 8.0}


def test_gavels_own_table_comes_back_whole(answers: LocalAnswers) -> None:
    file = published("gavel/simulation_throughputs.json")
    measured = read_rates(file)
    names = sorted({key[0] for entries in measured.values() for key in entries})
    table = throughput_table(
        answers, gavel_jobs(names), {"k80": "K80", "v100": "V100-SXM2-16GB"}, observed=measured
    )
    found, given = entries(table.rates), entries(measured)
    assert len(given) > 5000
    assert {entry: found[entry] for entry in given} == given
