"""Twelve bad candidates, and twelve are refused for what is wrong with them; good ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet, Margins
from perfmodel.training.gate.gate import decide

_STEPS = 480
_DEVICES = ("A100", "H100", "T4", "V100")
_NOISE = 0.1


def _judging_set(name: str, seed: int) -> JudgingSet:
    """Steps over four devices, two modes, twelve families of ten models, and three placements."""
    rng = np.random.default_rng(seed)
    number = np.arange(_STEPS)
    return JudgingSet(
        name=name,
        keys=tuple(f"{name}-{i}" for i in number),
        measured_s=np.exp(rng.normal(-3, 1.5, _STEPS)),
        labels={
            "device": tuple(_DEVICES[i % 4] for i in number),
            "mode": tuple(("training", "inference")[(i // 4) % 2] for i in number),
            "family": tuple(f"family-{(i // 8) % 12:02d}" for i in number),
            "placement": tuple(("one", "host", "hosts")[(i // 96) % 3] for i in number),
            # Four steps of each, on all four devices.
            "model": tuple(f"model-{i // 8 % 12}-{i // 96 * 2 + i % 8 // 4}" for i in number),
        },
    )


SETS = (_judging_set("frozen", 1), _judging_set("newest", 2))


def _answers(judged: JudgingSet, seed: int, noise: float = _NOISE) -> Answers:
    """Answers that are off by some noise, with intervals that hold 90 % of such."""
    time_s = judged.measured_s * np.exp(np.random.default_rng(seed).normal(0, noise, _STEPS))
    # 1.645 standard deviations to either side of a normal hold 90 %.
    return Answers(
        time_s=time_s, low_s=time_s * np.exp(-1.645 * noise), high_s=time_s * np.exp(1.645 * noise)
    )


def _version(name: str, seed: int, noise: float = _NOISE) -> Evidence:
    return Evidence(
        version=f"default/{name}",
        answers={one.name: _answers(one, seed + k, noise) for k, one in enumerate(SETS)},
        violations={"monotone in batch": 0, "under the roofline": 0, "order of nodes": 0},
        learned_keys=frozenset({"other-1", "other-2"}),
        devices=frozenset(_DEVICES),
        schema_version=7,
        size_bytes=20e6,
        load_time_s=0.8,
        answers_per_s=4_000.0,
    )


SERVING = _version("serving", 10)
GOOD = _version("good", 20)


def _changed(change: Callable[[JudgingSet, Answers], Answers], only: str | None = None) -> Evidence:
    """A candidate that is good but for what is done to its answers."""
    answers = {
        one.name: change(one, GOOD.answers[one.name])
        if only in (None, one.name)
        else GOOD.answers[one.name]
        for one in SETS
    }
    return replace(GOOD, answers=answers)


def _times(answers: Answers, factor: object) -> Answers:
    return Answers(
        time_s=answers.time_s * factor, low_s=answers.low_s * factor, high_s=answers.high_s * factor
    )


def _on(judged: JudgingSet, dimension: str, group: str, factor: float) -> np.ndarray:
    return np.where(np.array(judged.labels[dimension]) == group, factor, 1.0)


def _worse_on_one_group(judged: JudgingSet, answers: Answers) -> Answers:
    # One family of twelve, 40 steps: 25 % too slow there is 2 % on average.
    return _times(answers, _on(judged, "family", "family-03", 1.25))


def _nan(judged: JudgingSet, answers: Answers) -> Answers:
    time_s = answers.time_s.copy()
    time_s[17] = np.nan
    return replace(answers, time_s=time_s)


def _constant(judged: JudgingSet, answers: Answers) -> Answers:
    middle = np.full(_STEPS, float(np.median(judged.measured_s)))
    # Wide enough to hold everything, so that nothing else would tell.
    return Answers(time_s=middle, low_s=middle * 1e-4, high_s=middle * 1e4)


def _narrow(judged: JudgingSet, answers: Answers) -> Answers:
    return replace(answers, low_s=answers.time_s * 0.99, high_s=answers.time_s * 1.01)


def _wide(judged: JudgingSet, answers: Answers) -> Answers:
    return replace(answers, low_s=answers.time_s * 0.1, high_s=answers.time_s * 10)


def _poisoned(judged: JudgingSet, answers: Answers) -> Answers:
    # Thirty per cent of the reports of one device were twice too slow: a mean of logarithms that
    # learned from them is off by 0.3 ln 2 = 0.21.
    return _times(answers, _on(judged, "device", "T4", float(np.exp(0.3 * np.log(2)))))


BAD: dict[str, tuple[Evidence, str, str]] = {
    "worse on one group only": (_changed(_worse_on_one_group), "error", "family family-03"),
    "NaN": (_changed(_nan), "finite", "1 answers"),
    "constant": (_changed(_constant), "constant", "spread by 0"),
    "wrong units": (_changed(lambda _, a: _times(a, 1e3)), "scale", "times what was measured"),
    "too narrow": (_changed(_narrow), "coverage", "lie inside"),
    "too slow": (replace(GOOD, answers_per_s=2_000.0), "speed", "2000 answers/s, at least 2800"),
    "too large": (replace(GOOD, size_bytes=31e6), "size", "at most 3e+07"),
    "trained on the judging set": (
        replace(GOOD, learned_keys=frozenset({"frozen-3", "frozen-4"})), "leak", "2 of the steps",
    ),
    "damaged": (replace(GOOD, damaged={"serving.json": "SHA-256"}), "damaged", "serving.json"),
    "poisoned": (_changed(_poisoned, only="newest"), "error", "newest, device T4"),
    "old schema": (replace(GOOD, schema_version=6), "schema", "version 6"),
    "other labels": (
        replace(GOOD, devices=frozenset({"A100-80GB", "H100", "T4", "V100"})), "labels", "A100",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_candidate_is_refused_for_what_is_wrong_with_it(name: str) -> None:
    candidate, check, says = BAD[name]
    decision = decide(candidate, SERVING, SETS)
    assert not decision.accepted
    found = [one for one in decision.findings if one.check == check]
    assert any(says in f"{one.where} {one.detail}" for one in found), decision.findings
    assert "refused" in decision.report() and check in decision.report()
    assert "- frozen: 480 steps\n- newest: 480 steps\n" in decision.report()


def test_there_are_twelve() -> None:
    assert len(BAD) == 12


@pytest.mark.parametrize("seed", range(30, 60))
def test_a_candidate_that_is_as_good_by_chance_is_accepted(seed: int) -> None:
    # Another draw of the same noise: no group is worse but by chance.
    decision = decide(_version("equal", seed * 7), SERVING, SETS)
    assert decision.accepted, decision.findings


def test_a_better_candidate_is_accepted_and_the_report_shows_every_group() -> None:
    decision = decide(_version("better", 50, noise=0.05), SERVING, SETS)
    assert decision.accepted and "accepted" in decision.report()
    # Of each set: all, four devices, two modes, twelve families, three placements.
    assert len(decision.groups) == 2 * (1 + 4 + 2 + 12 + 3)
    everything = decision.groups[0]
    # Mean of |N(0, s)| is s sqrt(2 / pi): 0.040 and 0.080.
    assert everything.candidate == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.1)
    assert everything.serving == pytest.approx(0.1 * np.sqrt(2 / np.pi), rel=0.1)
    assert everything.low < everything.candidate - everything.serving < everything.high < 0


def test_other_reasons_to_refuse() -> None:
    law = replace(GOOD, violations={"monotone in batch": 2})
    for candidate, check in (
        (law, "law"),
        (replace(GOOD, golden_rows_off=1), "golden rows"),
        (replace(GOOD, load_time_s=1.7), "load time"),
        (replace(GOOD, load_time_s=float("nan")), "load time"),
        (_changed(_wide), "width"),
        (replace(GOOD, answers={"frozen": GOOD.answers["frozen"]}), "finite"),
    ):
        decision = decide(candidate, SERVING, SETS)
        assert check in {one.check for one in decision.findings}
    # A law that the serving version breaks as often is no reason to stay with that one.
    assert decide(law, replace(SERVING, violations={"monotone in batch": 2}), SETS).accepted


def test_a_small_version_may_grow() -> None:
    # As one does whose site has its first observations: other devices are learned as well.
    small = replace(SERVING, size_bytes=5e5, load_time_s=0.1)
    grown = replace(GOOD, size_bytes=4.9e6, load_time_s=0.9)
    assert decide(grown, small, SETS).accepted
    for worse in (replace(grown, size_bytes=5.1e6), replace(grown, load_time_s=1.1)):
        assert not decide(worse, small, SETS).accepted


def test_intervals_are_compared_in_width_with_those_that_hold_what_they_state() -> None:
    wide = _changed(_wide)
    assert "width" in {one.check for one in decide(wide, SERVING, SETS).findings}
    narrow = {name: _narrow(SETS[0], one) for name, one in SERVING.answers.items()}
    assert decide(wide, replace(SERVING, answers=narrow), SETS).accepted


def test_the_same_evidence_gives_the_same_decision() -> None:
    candidate = BAD["poisoned"][0]
    assert decide(candidate, SERVING, SETS) == decide(candidate, SERVING, SETS)
    assert decide(candidate, SERVING, SETS).report() == decide(candidate, SERVING, SETS).report()


def test_steps_in_another_order_give_the_same_groups() -> None:
    order = np.random.default_rng(0).permutation(_STEPS)

    def turned(evidence: Evidence) -> Evidence:
        answers = {
            name: Answers(
                time_s=one.time_s[order], low_s=one.low_s[order], high_s=one.high_s[order]
            )
            for name, one in evidence.answers.items()
        }
        return replace(evidence, answers=answers)

    sets = tuple(
        JudgingSet(
            name=one.name,
            keys=tuple(one.keys[i] for i in order),
            measured_s=one.measured_s[order],
            labels={d: tuple(found[i] for i in order) for d, found in one.labels.items()},
        )
        for one in SETS
    )
    plain = decide(GOOD, SERVING, SETS).groups
    other = decide(turned(GOOD), turned(SERVING), sets).groups
    assert [one.where for one in plain] == [one.where for one in other]
    assert [one.candidate for one in other] == pytest.approx([one.candidate for one in plain])


def test_small_groups_are_judged_together() -> None:
    few = Margins(least_steps=50)  # families have 40 steps each
    groups = decide(GOOD, SERVING, SETS, few).groups
    families = [one for one in groups if one.dimension == "family"]
    assert [(one.group, one.steps) for one in families] == [("(small groups)", _STEPS)] * 2


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_few_steps_of_a_group_refuse_nobody_by_chance(steps: int) -> None:
    # The one family that is too small is judged by itself: its steps are all that is small.
    families = tuple("rare" if i < steps else "common" for i in range(_STEPS))
    rare = replace(SETS[0], labels={**SETS[0].labels, "family": families})
    refused = [
        decide(_version("equal", 1000 + seed), _version("serving", 5000 + seed), [rare]).findings
        for seed in range(40)
    ]
    # One interval in twenty is allowed to miss what it holds, of all groups together.
    assert sum(bool(found) for found in refused) <= 2


def _one_model(judged: JudgingSet) -> JudgingSet:
    """The same steps, those of one family all of one model."""
    models = zip(judged.labels["family"], judged.labels["model"], strict=True)
    alone = tuple("alone" if family == "family-03" else model for family, model in models)
    return replace(judged, labels={**judged.labels, "model": alone})


def _moved(judged: JudgingSet, dimension: str, group: str, factor: float) -> Evidence:
    """The version that serves, with one group of answers moved as a whole, as training may."""
    answers = SERVING.answers[judged.name]
    # Off to the side on which it is off already: each error grows by ln(factor).
    sides = np.where(answers.time_s > judged.measured_s, factor, 1 / factor)
    moved = np.where(_on(judged, dimension, group, 0.0) == 0.0, sides, 1.0)
    return replace(SERVING, answers={judged.name: _times(answers, moved)})


def test_steps_that_move_together_are_one_witness() -> None:
    one = _one_model(SETS[0])
    # Two trainings from the same data moved 29 steps of one model by 0.055.
    moved = _moved(one, "family", "family-03", float(np.exp(0.055)))
    decision = decide(moved, SERVING, [one])
    assert decision.accepted, decision.findings
    (family,) = [found for found in decision.groups if found.group == "family-03"]
    assert (family.units, family.steps, family.assumed) == (1, 40, 0.1)
    # 40 steps of the same movement have no spread of their own: all of it is assumed.
    assert (family.low, family.high) == pytest.approx((-0.045, 0.155))
    assert "family family-03 | 40 | 1 | " in decision.report()
    assert "-0.045 to +0.155 *" in decision.report() and "0.1 is assumed" in decision.report()


@pytest.mark.parametrize(
    ("dimension", "group"), [("device", "T4"), ("mode", "training"), ("family", "family-03")]
)
def test_the_same_worsening_of_many_units_is_refused(dimension: str, group: str) -> None:
    # Ten models of a family, or twelve families of a device.
    moved = _moved(SETS[0], dimension, group, float(np.exp(0.055)))
    decision = decide(moved, SERVING, [SETS[0]])
    found = [one.where for one in decision.findings if one.check == "error"]
    assert f"frozen, {dimension} {group}" in found


def test_one_model_that_is_worse_by_more_than_training_explains_is_refused() -> None:
    one = _one_model(SETS[0])
    decision = decide(_moved(one, "family", "family-03", 1.15), SERVING, [one])
    assert [found.where for found in decision.findings] == ["frozen, family family-03"]
    assert "over 40 steps of 1 units" in decision.findings[0].detail


def test_a_judging_set_of_one_step_compares_nothing() -> None:
    one = replace(
        SETS[0],
        keys=SETS[0].keys[:1],
        measured_s=SETS[0].measured_s[:1],
        labels={name: found[:1] for name, found in SETS[0].labels.items()},
    )
    exact = Answers(time_s=one.measured_s, low_s=one.measured_s, high_s=one.measured_s)
    both = replace(GOOD, answers={one.name: exact})
    assert decide(both, both, [one]).groups == ()


def test_what_cannot_be_compared_with_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="at least one judging set"):
        decide(GOOD, SERVING, ())
    with pytest.raises(InvalidInputError, match="cannot be compared with on 'frozen'"):
        decide(GOOD, _changed(_nan), SETS)
    one = SETS[0]
    with pytest.raises(InvalidInputError, match="a key, a time"):
        replace(one, keys=one.keys[1:])
    with pytest.raises(InvalidInputError, match="times above 0"):
        replace(one, measured_s=one.measured_s * 0)
