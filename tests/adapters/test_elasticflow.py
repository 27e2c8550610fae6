"""ElasticFlow's CSV: columns of counts, rows of global batches, iterations per second."""

from __future__ import annotations

import csv
import io

import pytest
from adapter_world import training

from perfmodel.adapters.ask import NoAnswerError, Service
from perfmodel.adapters.elasticflow import throughputs
from perfmodel.adapters.local import LocalAnswers
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
