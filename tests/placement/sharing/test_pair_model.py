from __future__ import annotations

import numpy as np
import pytest

from perfmodel.placement.sharing.job_load import JobLoad, Loads
from perfmodel.placement.sharing.pair_model import Likeness, PairLaw, PairModel


def test_the_law_by_hand() -> None:
    # 1 + 1.5 * 0.5 * 0.4 * (0.4 / 0.1)**0.5 = 1 + 0.3 * 2
    law = PairLaw(scale=1.5, ratio_power=0.5)
    subject = Loads.of([JobLoad(step_time_s=0.1, device_share=0.5)])
    partner = Loads.of([JobLoad(step_time_s=0.4, device_share=0.4)])
    assert np.exp(law.log_slowdown(subject, partner))[0] == pytest.approx(1.6)


def test_likeness_falls_with_the_batch_and_ends_at_the_family() -> None:
    alike = Likeness(length=2.0, batch_part=0.5).jobs(
        ["a", "a", "b", None], np.array([3.0, 5.0, 3.0, 3.0]), ["a"], np.array([3.0])
    )
    # Two doublings apart: 0.5 / e + 0.5.
    assert alike[:, 0].tolist() == pytest.approx([1.0, 0.5 / np.e + 0.5, 0.0, 0.0])


def test_the_mean_of_the_residual_by_hand() -> None:
    # One known pair, weight 2: 0.1 * 2 + 0.2 * 2 * 1 + 0.3 * 2 * 0.5 + 0.4 * 2 * 0.5
    likeness = Likeness(constant=0.1, subject=0.2, partner=0.3, both=0.4)
    mean = likeness.mean(np.array([[1.0]]), np.array([[0.5]]), np.array([[2.0]]))
    assert mean[0] == pytest.approx(0.2 + 0.4 + 0.3 + 0.4)


def test_a_model_is_the_same_after_json() -> None:
    model = PairModel(
        law=PairLaw(scale=1.25),
        likeness=Likeness(),
        families=("a", "b"),
        log2_batch=np.array([3.0, 4.0]),
        weights={"made-up": np.array([[0.5, 0.0], [0.25, -0.125]])},
    )
    again = PairModel.from_constants(model.to_constants())
    loads = Loads.of(
        [JobLoad(step_time_s=0.1, family="a", batch_size=8), JobLoad(step_time_s=0.2, family="b")]
    )
    swapped = Loads.of(
        [JobLoad(step_time_s=0.2, family="b"), JobLoad(step_time_s=0.1, family="a", batch_size=8)]
    )
    one, other = (m.slowdown(loads, swapped, "made-up") for m in (model, again))
    assert one.tolist() == other.tolist()
