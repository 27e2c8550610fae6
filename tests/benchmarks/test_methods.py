"""Tables of several methods: kept, read back, written into the report."""

from pathlib import Path

import numpy as np
import pytest
from accuracy_report.methods import MethodTable, load_methods, method_lines

TABLE = MethodTable(
    name="made-up",
    title="made-up kernels, unseen device",
    target=0.12,
    measured_s=np.array([1.0, 1.0, 2.0, 4.0]),
    predicted_s={
        "learned": np.array([1.1, 0.9, 2.0, 4.0]),
        "roofline": np.array([0.5, 0.5, 1.0, 2.0]),
    },
    groups=np.array(["A", "A", "B", "B"]),
    low_s=np.array([1.05, 0.8, 1.9, 3.0]),
    high_s=np.array([1.2, 1.1, 2.1, 5.0]),
)


def test_scores_by_hand() -> None:
    found = TABLE.to_dict()
    # Errors 10 %, 10 %, 0, 0.
    assert found["methods"]["learned"]["mape"] == pytest.approx(0.05)
    assert found["methods"]["roofline"]["mape"] == pytest.approx(0.5)
    # The first interval, 1.05 to 1.2, does not hold 1.
    assert found["coverage"] == pytest.approx(3 / 4)


def test_tables_come_back_from_a_folder(tmp_path: Path) -> None:
    assert load_methods(tmp_path) == []
    TABLE.save(tmp_path)
    (again,) = load_methods(tmp_path)
    assert again.to_dict() == TABLE.to_dict()
    assert again.groups.tolist() == TABLE.groups.tolist()
    assert list(again.predicted_s) == ["learned", "roofline"]


def test_the_report_names_each_group_and_method() -> None:
    text = "\n".join(method_lines([TABLE]))
    assert "| **learned** | 4 | **5.0 %** | 12.0 % | 5.0 % | 10.0 % | 75.0 % |" in text
    assert "| A | 2 | 10.0 % | 50.0 % |" in text
    assert "| B | 2 | 0.0 % | 50.0 % |" in text
