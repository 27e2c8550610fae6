"""Judged kernels end in the same report as steps."""

from pathlib import Path

import numpy as np
import pytest
from accuracy_report.kernel_accuracy import (
    METHODS,
    TARGET,
    KernelEvaluation,
    kernel_tables,
    run_kernels,
)
from accuracy_report.methods import load_methods


def _evaluation(rows: int = 30) -> KernelEvaluation:
    """Two devices, two groups; the predictor is 10 % slow, the others twice as slow."""
    measured = np.linspace(1e-5, 1e-3, rows)
    factors = dict.fromkeys(METHODS, 2.0) | {METHODS[0]: 1.1}
    half = np.arange(rows) % 2 == 0
    return KernelEvaluation(
        device=np.where(half, "L4", "T4"),
        op=np.where(np.arange(rows) < rows // 2, "gemm", "softmax"),
        question=np.where(np.arange(rows) < rows // 2, "product", "pointwise"),
        kernel=np.full(rows, "made-up"),
        measured_s=measured,
        predicted_s={method: factor * measured for method, factor in factors.items()},
        launch_share=np.full(rows, 0.1),
    )


def test_kernels_are_judged_together_and_by_group() -> None:
    whole, *groups = kernel_tables(_evaluation())
    assert (whole.name, len(whole.measured_s), whole.target) == ("kernels", 30, TARGET)
    assert sum(len(one.measured_s) for one in groups) == 30
    for one in (whole, *groups):
        found = one.to_dict()["methods"]
        assert found[METHODS[0]]["mape"] == pytest.approx(0.1)
        assert found["roofline"]["mape"] == pytest.approx(1.0)
        assert set(one.groups.tolist()) == {"L4", "T4"}


def test_a_folder_without_tables_adds_nothing(tmp_path: Path) -> None:
    assert run_kernels(tmp_path, tmp_path / "answers") == []
    assert load_methods(tmp_path / "answers") == []
