import os
from pathlib import Path

import numpy as np
import pytest
from placement_accuracy.job_type_baselines import (
    Matrix,
    completed_logs,
    completed_rates,
    effects_alone,
    factorised,
    nearest_reference,
)
from placement_accuracy.job_types import hidden_lines


def product(jobs: int = 8, places: int = 6) -> np.ndarray:
    return np.outer(np.linspace(1, 3, jobs), np.linspace(0.5, 1, places))


def test_factors_find_a_matrix_of_rank_one() -> None:
    whole = product()
    known = np.random.default_rng(0).random(whole.shape) < 0.7
    found = factorised(Matrix(values=whole, known=known), rank=1, penalty=1e-6)
    assert found == pytest.approx(whole, rel=1e-3)


def test_effects_alone_are_exact_for_products() -> None:
    whole = product()
    known = np.ones(whole.shape, bool)
    known[0, 0] = False
    matrix = Matrix(values=whole, known=known)
    assert effects_alone(matrix)[0, 0] == pytest.approx(whole[0, 0], rel=0.05)
    assert completed_logs(matrix)[0, 0] == pytest.approx(whole[0, 0], rel=0.05)


def test_the_nearest_row_lends_its_shape() -> None:
    rates = np.array([[1.0, 2.0, 4.0, 8.0], [8.0, 4.0, 2.0, 1.0], [10.0, 20.0, 40.0, 0.0]])
    known = rates > 0
    # Ten times the first row as far as it is known, so 10 x 8 where it is not.
    answer = nearest_reference(Matrix(values=rates, known=known))
    assert answer[2] == pytest.approx([10, 20, 40, 80])


def test_rows_without_a_known_rate_have_no_answer() -> None:
    known = np.array([[True, True], [False, False]])
    matrix = Matrix(values=np.ones((2, 2)), known=known)
    for method in (completed_rates, nearest_reference, completed_logs, effects_alone):
        assert np.isnan(method(matrix)[1]).all()
        assert np.isfinite(method(matrix)[0]).all()


@pytest.mark.skipif("PERFMODEL_DATA" not in os.environ, reason="needs the public tables")
@pytest.mark.slow
def test_half_the_error_of_matrix_completion() -> None:
    data = Path(os.environ["PERFMODEL_DATA"])
    for line in hidden_lines(data, seeds=range(1), shares=[0.8]):
        assert line.target is not None
        assert line.errors().mean() <= line.target
        assert np.nanmedian(line.errors()) < np.nanmedian(line.errors("effects of job and place"))
