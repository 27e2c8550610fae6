from pathlib import Path

import numpy as np
import pytest
from accuracy_report.kernel_accuracy import METHODS, evaluate_kernels
from made_up_kernels import DEVICES, law, made_up_calls, train_quickly
from made_up_kernels import made_up_records as records

from perfmodel.errors import TrainingError
from perfmodel.importers.published import PublishedKernel
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor
from perfmodel.store.artifacts import read_artifact
from perfmodel.training.kernels.train_kernels import train_kernels
from perfmodel.training.samples.measured_kernels import measured_calls, same_shapes


def test_records_become_columns() -> None:
    given = records(30)
    found = measured_calls(given)
    assert len(found) == 30 * len(DEVICES)
    assert found.calls.device_names.tolist() == [k.accelerator for k in given]
    assert found.time_s.tolist() == [k.time_s for k in given]


def test_a_sample_keeps_the_same_shapes_on_every_device() -> None:
    found = measured_calls(records(120)).calls
    kept = found.take(same_shapes(found, 20))
    names, gemm = kept.device_names, kept.op == "gemm"
    for column in ("m", "n", "k"):
        first, *rest = [np.sort(kept.shape[column][gemm & (names == d)]) for d in DEVICES]
        assert len(first) == 20
        assert all(np.array_equal(first, other) for other in rest)


def test_every_device_is_left_out_and_the_law_is_found() -> None:
    found = evaluate_kernels(records(100), fast=True)
    assert set(found.device.tolist()) == set(DEVICES)
    assert set(found.question.tolist()) == {"product", "pointwise"}
    tables = found.tables()
    assert [t.name for t in tables] == ["kernels-product", "kernels-pointwise"]
    for table in tables:
        assert tuple(table.predicted_s) == METHODS
        ours, roofline, plain = (table.errors(m).mean() for m in METHODS)
        assert ours < 0.2
        assert ours < roofline
        assert ours < plain
        assert "probes" in next(iter(table.facts.values()))


def test_probes_help_where_a_device_is_slow() -> None:
    slow = [
        k if k.accelerator != "T4" else PublishedKernel(
            op=k.op, accelerator=k.accelerator, dtype=k.dtype, shape=k.shape,
            time_s=1.8 * k.time_s, origin=k.origin, kernel=k.kernel,
        )
        for k in records(60)
    ]  # fmt: skip
    found = evaluate_kernels(slow, fast=True)
    curve = found.probe_curve("product", probes=(1, 10))
    assert curve[10] < curve[1]


def test_an_artefact_is_small_and_loads(tmp_path: Path) -> None:
    folder = train_quickly(120, tmp_path)
    artefact = read_artifact(folder)
    assert not artefact.damaged
    assert artefact.manifest["devices"] == sorted(DEVICES)
    # a device has 80 products, of which 60 are kept, and 40 additions
    assert artefact.manifest["data"]["calls"] == len(DEVICES) * (60 + 40)
    predictor = KernelPredictor.load(folder)
    calls = made_up_calls(30)
    assert np.abs(predictor.predict(calls) / law(calls) - 1).mean() < 0.15


def test_no_records_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no kernel records"):
        train_kernels([], tmp_path)
