"""ElasticFlow's CSV: columns of counts, rows of global batches, iterations per second."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from adapter_world import ToldOften, training

from perfmodel.adapters.ask import NoAnswerError, Service
from perfmodel.adapters.elasticflow import read_throughputs, throughputs
from perfmodel.adapters.local import LocalAnswers
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator


def test_the_global_batch_is_dealt_out(service: Service, estimator: Estimator) -> None:
    table = throughputs(
        service, training("timm/small"), "V100", global_batch_sizes=[64, 12], counts=[1, 2, 4, 8]
    )
    assert table.unanswered == ()
    rows = {row["global_batch_size"]: row for row in csv.DictReader(io.StringIO(table.to_csv()))}
    assert list(rows) == ["64", "12"]
    assert list(rows["64"]) == ["global_batch_size", "1", "2", "4", "8"]
    # 64 samples on four GPUs are 16 each; an iteration is one step of all of them.
    [[sixteen_each]] = LocalAnswers(estimator).cells([training("timm/small", 16)], ["4xV100"])
    assert sixteen_each is not None
    assert float(rows["64"]["4"]) == pytest.approx(1 / sixteen_each.step_time_s)
    # 12 samples cannot be dealt out to eight GPUs.
    assert rows["12"]["8"] == rows["12"]["4"]


def test_what_does_not_fit_is_taken_in_micro_batches(estimator: Estimator) -> None:
    answers = LocalAnswers(estimator)
    # 16,384 values of 4 bytes in four layers: 131,072 samples hold 34 GB of activations.
    whole, half, quarter, eighth = (
        answers.cells(
            [{**training("timm/huge", 131_072 // m), "accumulation_steps": m}], ["V100-SXM2-32GB"]
        )[0][0]
        for m in (1, 2, 4, 8)
    )
    first = next(c for c in (whole, half, quarter, eighth) if c is not None and c.fits)
    assert whole is not None and not whole.fits
    table = throughputs(
        answers, training("timm/huge"), "V100-SXM2-32GB", global_batch_sizes=[131_072], counts=[1]
    )
    assert table.rows[131_072] == (1 / first.step_time_s,)


def test_a_row_without_an_answer_is_left_out_with_the_reason(estimator: Estimator) -> None:
    table = throughputs(
        LocalAnswers(estimator), training("timm/huge"), "P4", global_batch_sizes=[1], counts=[1]
    )
    assert table.rows == {} and table.unanswered[0].startswith("1: ")


def test_without_the_service_an_export_says_so(failing: Service) -> None:
    with pytest.raises(NoAnswerError):
        throughputs(failing, training("timm/small"), "V100", global_batch_sizes=[64])


ASKED: Any = {"global_batch_sizes": [64, 12], "counts": [1, 2, 4, 8]}


def test_with_everything_measured_the_table_is_the_measurement(
    service: Service, tmp_path: Path
) -> None:
    plain = throughputs(service, training("timm/small"), "V100", **ASKED)
    measured = {
        (size, count): rate * 1.7
        for size, rates in plain.rows.items()
        for count, rate in zip(plain.counts, rates, strict=True)
    }
    table = throughputs(service, training("timm/small"), "V100", observed=measured, **ASKED)
    assert table.unanswered == ()
    (tmp_path / "small.csv").write_text(table.to_csv())
    assert read_throughputs(tmp_path / "small.csv") == measured


def test_measured_cells_come_back_and_move_the_rest(estimator: Estimator) -> None:
    answers = LocalAnswers(estimator)
    plain = throughputs(answers, training("timm/small"), "V100", **ASKED)
    # A third of what is predicted; and twelve samples on eight GPUs, which nobody could deal out.
    measured = {(64, 1): plain.rows[64][0] / 3, (64, 2): plain.rows[64][1] / 3, (12, 8): 0.77}
    table = throughputs(answers, training("timm/small"), "V100", observed=measured, **ASKED)
    assert (table.rows[64][0], table.rows[64][1]) == (measured[64, 1], measured[64, 2])
    assert table.rows[12][3] == 0.77
    assert table.rows[64][2] < plain.rows[64][2] / 1.5
    assert table.rows[12][0] < plain.rows[12][0] / 1.5


def test_each_measured_cell_is_told_once_and_counts_for_all_batches(estimator: Estimator) -> None:
    answers, often = LocalAnswers(estimator), ToldOften(LocalAnswers(estimator))
    job, measured = training("timm/small"), {(64, 1): 2.0, (64, 2): 3.5, (12, 4): 40.0}
    told_once, told_often = (
        throughputs(some, job, "V100", observed=measured, **ASKED) for some in (answers, often)
    )
    assert told_once == told_often
    assert (often.came, often.told % 3) == (3, 0) and often.told > 10 * 3


def test_a_measured_cell_stays_where_the_memory_is_predicted_too_small(
    estimator: Estimator,
) -> None:
    table = throughputs(
        LocalAnswers(estimator), training("timm/huge"), "P4", global_batch_sizes=[1], counts=[1],
        observed={(1, 1): 0.3},
    )  # fmt: skip
    assert table.rows == {1: (0.3,)}


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        ({(64, 1): 0.0}, "rate of a global batch of 64 on 1 GPUs must be a number above zero"),
        ({(64, 1): -2.0}, "above zero; got -2.0"),
        ({(64, 3): 1.0}, "64 was measured on 3 GPUs, which is no cell"),
        ({(65, 1): 1.0}, "65 was measured on 1 GPUs, which is no cell"),
    ],
)
def test_measured_cells_that_cannot_be_are_refused(
    observed: Any, said: str, estimator: Estimator
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        throughputs(
            LocalAnswers(estimator), training("timm/small"), "V100", observed=observed, **ASKED
        )


def test_empty_cells_were_not_measured(tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text("global_batch_size,1,2\n64,1.5,\n")
    assert read_throughputs(tmp_path / "small.csv") == {(64, 1): 1.5}
    for text in (
        "",
        "batch,1\n64,1.0\n",
        "global_batch_size,1\n64,fast\n",
        "global_batch_size,1\n64\n",
    ):
        (tmp_path / "small.csv").write_text(text)
        with pytest.raises(InvalidInputError, match="no table of global_batch_size"):
            read_throughputs(tmp_path / "small.csv")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2"])
def test_counts_that_are_none_are_refused(estimator: Estimator, wrong: Any) -> None:
    stated: Any = {"global_batch_sizes": [64], "counts": [1], "per_host": 8}
    for change in ({"global_batch_sizes": [wrong]}, {"counts": [1, wrong]}, {"per_host": wrong}):
        with pytest.raises(InvalidInputError, match="must be a whole number above zero"):
            throughputs(LocalAnswers(estimator), training("timm/small"), "V100", **stated | change)


@pytest.mark.parametrize("cell", [64, (64,), (64, 1, 1)])
def test_what_is_no_cell_is_refused(estimator: Estimator, cell: Any) -> None:
    with pytest.raises(InvalidInputError, match="measured cell"):
        throughputs(
            LocalAnswers(estimator), training("timm/small"), "V100",
            global_batch_sizes=[64], counts=[1], observed={cell: 3.0},
        )  # fmt: skip


def test_a_file_from_a_spreadsheet_is_read_and_one_that_contradicts_itself_is_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "small.csv"
    file.write_text("\ufeffglobal_batch_size,1\r\n64,1.5\r\n\r\n", encoding="utf-8")
    assert read_throughputs(file) == {(64, 1): 1.5}
    for text in ("global_batch_size,1\n64,1.5\n64,2.5\n", "global_batch_size,1,1\n64,1.5,2.5\n"):
        file.write_text(text)
        with pytest.raises(InvalidInputError, match="64 on 1 GPUs stands there twice"):
            read_throughputs(file)
