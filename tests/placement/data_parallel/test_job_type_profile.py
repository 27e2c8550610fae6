from __future__ import annotations

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.placement.job_types.job_type_guess import job_type_profile


def test_volumes_follow_the_number_of_parameters() -> None:
    profile = job_type_profile(parameter_count=5e6, gradient_item_bytes=2.0)
    # 5e6 parameters of 4 bytes, gradients of 2.
    assert profile.parameter_bytes == 2e7
    assert profile.gradient_bytes == 1e7
    assert float(profile.gradient_piece_bytes.sum()) == pytest.approx(1e7)


def test_gradients_become_ready_during_the_backward_pass() -> None:
    profile = job_type_profile(parameter_count=5e6)
    assert profile.forward_share < profile.gradient_ready[0]
    assert profile.gradient_ready[-1] == pytest.approx(1 - profile.optimizer_share)


def test_no_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="needs parameters"):
        job_type_profile(parameter_count=0.0)
