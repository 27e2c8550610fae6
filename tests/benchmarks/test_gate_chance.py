"""The simulation of the gate: equal candidates pass, real worsenings do not."""

from __future__ import annotations

import gate_chance
import numpy as np


def test_equal_candidates_pass_where_single_steps_would_refuse_them() -> None:
    # Four times what two trainings of the shipped version differ by.
    found = gate_chance.refusals(12, 4.0, 1.0, gate_chance.CASES[0][1])
    assert found["units"] <= found["steps"] // 2 and found["steps"] > 0


def test_a_real_worsening_of_many_units_is_refused() -> None:
    _, everything, _ = gate_chance.CASES[0]
    assert gate_chance.refusals(6, 1.0, 1.1, everything)["units"] == 6


def test_cases_choose_what_they_name() -> None:
    judged = gate_chance.judging_set(0)
    models = np.array(judged.labels["model"])
    for large, least, most in ((True, 10, 40), (False, 1, 1)):
        chosen = gate_chance.family_of(judged, large=large)
        assert least <= len(set(models[chosen])) <= most and chosen.sum() >= 4
