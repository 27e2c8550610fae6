"""The node network on a world whose law is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path

import joint_world as world
import numpy as np
import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.row_sorts import ROW_SORTS
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import (
    SETTING_COLUMNS,
    StepTable,
    step_table,
)
from perfmodel.predictors.step_models.node_entries import EFFECTS, LAUNCH, batches
from perfmodel.predictors.step_models.node_net import NodeNet
from perfmodel.predictors.step_models.node_settings import NodeNetSettings
from perfmodel.types import Compiler

SAMPLES = world.samples()
TABLE, LOGS, WEIGHTS = world.table_of(SAMPLES)
#: The last two families are held out.
SEEN = np.array([s.family not in ("family4", "family5") for s in SAMPLES])
SETTINGS = NodeNetSettings(epochs=12)
#: What a call for each sort of rows takes, no two alike.
CALLS = np.linspace(2.0, 4.0, len(ROW_SORTS), dtype=np.float32)


def _fit(settings: NodeNetSettings = SETTINGS) -> NodeNet:
    return NodeNet(settings).fit(TABLE, LOGS, WEIGHTS, np.flatnonzero(SEEN))


@pytest.fixture(scope="module")
def net() -> NodeNet:
    return _fit()


def _new_device_steps() -> list[Step]:
    return [sample.step for sample in world.samples(("Gpu-New",))]


def test_learns_the_law_for_families_it_has_not_seen(net: NodeNet) -> None:
    found, _ = net.log_times(TABLE)
    error = np.abs(found - LOGS)
    assert np.mean(error[SEEN]) < 0.08
    assert np.mean(error[~SEEN]) < 0.15
    # Without learning every row would run at the bias of its efficiency.
    untrained, _ = _fit(replace(SETTINGS, epochs=1, learning_rate=1e-9)).log_times(TABLE)
    assert np.mean(error[~SEEN]) < 0.5 * np.mean(np.abs(untrained - LOGS)[~SEEN])


def test_shares_of_effects_add_up_to_the_step(net: NodeNet) -> None:
    _, shares = net.log_times(TABLE)
    assert shares.shape == (len(SAMPLES), EFFECTS)
    assert np.all(shares >= 0) and shares.sum(axis=1) == pytest.approx(np.ones(len(SAMPLES)))


def test_times_of_rows_add_up_to_the_step(net: NodeNet) -> None:
    for position in (0, 77, len(SAMPLES) - 1):
        one = step_table([SAMPLES[position].step])
        parts = net.row_parts(one)
        rows = parts.work_s + parts.launch_s
        assert len(rows) == len(SAMPLES[position].step.sketch.count) and np.all(rows > 0)
        (expected,), _ = net.log_times(one)
        assert np.log(rows.sum()) == pytest.approx(expected, abs=1e-5)


def _one_on(kind: str) -> StepTable:
    steps = [sample.step for sample in SAMPLES if sample.step.accelerator.kind == kind]
    return step_table(steps[11:12])


def _apart(net: NodeNet) -> NodeNet:
    apart = deepcopy(net)
    apart.network_ = replace(net.network_, overlap=1.0)
    return apart


def test_the_host_calls_while_the_device_works(net: NodeNet) -> None:
    one = _one_on("gpu")
    (together,), shares = net.log_times(one)
    parts = _apart(net).row_parts(one)
    work, launch = parts.work_s.sum(), parts.launch_s.sum()
    assert np.exp(together) == pytest.approx((work**3 + launch**3) ** (1 / 3), rel=1e-5)
    assert net.row_parts(one).work_alone_s == pytest.approx(work, rel=1e-4)
    # A hundredth more launches are that times their share.
    more = (work**3 + (1.01 * launch) ** 3) ** (1 / 3)
    assert np.log(more) - together == pytest.approx(0.01 * shares[0, LAUNCH], rel=0.02)


def test_only_what_a_host_runs_through_changes_its_calls(net: NodeNet) -> None:
    apart = _apart(net)
    apart.network_ = replace(
        apart.network_, by_setting=np.full_like(net.network_.by_setting, 0.1), calls=CALLS
    )
    one = _one_on("gpu")

    def launch_s(**changed: float) -> FloatArray:
        settings = one.settings.copy()
        for name, value in changed.items():
            settings[:, SETTING_COLUMNS.index(name)] = value
        return apart.row_parts(replace(one, settings=settings)).launch_s

    for of_the_device in ("wide", "bfloat", "channels_last"):
        assert launch_s(**{of_the_device: 1.0}) == pytest.approx(launch_s(**{of_the_device: 0.0}))
    more = launch_s(training=1.0) / launch_s(training=0.0)
    assert more == pytest.approx(np.full(len(more), np.exp(0.1)), rel=1e-5)
    # Rows of one sort take equally long to call, whatever there is to work.
    per_call = launch_s() / one.count
    assert len(set(np.round(np.log(per_call), 4))) == len(set(one.sort.tolist())) < len(per_call)


def test_a_cpu_calls_and_works_in_turn(net: NodeNet) -> None:
    one = _one_on("cpu")
    assert _apart(net).log_times(one)[0] == pytest.approx(net.log_times(one)[0], abs=1e-6)


def test_the_same_seed_learns_the_same(net: NodeNet) -> None:
    again, _ = _fit().log_times(TABLE)
    assert np.array_equal(again, net.log_times(TABLE)[0])
    other, _ = _fit(replace(SETTINGS, seed=1)).log_times(TABLE)
    assert not np.array_equal(other, again)


def test_an_answer_does_not_depend_on_its_company(net: NodeNet) -> None:
    together, shares = net.log_times(TABLE)
    chosen = np.array([200, 3, 77])
    for steps in (chosen, chosen[:1], chosen[1:2]):
        logs, own = net.log_times(TABLE, steps)
        assert np.array_equal(logs, together[steps]) and np.array_equal(own, shares[steps])
    alone = net.log_times(step_table([SAMPLES[77].step]))
    assert alone[0][0] == together[77] and np.array_equal(alone[1][0], shares[77])


def test_an_unknown_device_is_answered_near_its_specification(net: NodeNet) -> None:
    steps = _new_device_steps()
    found, shares = net.log_times(step_table(steps))
    truth = np.log([world.law_s(step) for step in steps])
    assert np.isfinite(found).all() and np.isfinite(shares).all()
    assert np.mean(np.abs(found - truth)) < 0.25
    assert net.unknown_variance_.shape == (EFFECTS,) and np.all(net.unknown_variance_ > 0)


def test_strange_settings_are_answered_with_finite_times(net: NodeNet) -> None:
    step = replace(SAMPLES[0].step, compiler=Compiler.INDUCTOR, software={"torch": "1.4.0"})
    assert np.isfinite(net.log_times(step_table([step]))[0]).all()


def test_a_slower_device_gets_an_effect_of_its_own() -> None:
    # The two GPUs differ by half in speed beyond their specification; the net must keep both.
    slow = [
        replace(s, step_time_s=1.5 * s.step_time_s) if s.step.accelerator.name == "Gpu-L" else s
        for s in SAMPLES
    ]
    table, logs, weights = world.table_of(slow)
    net = NodeNet(SETTINGS).fit(table, logs, weights, np.arange(len(slow)))
    found, _ = net.log_times(table)
    own = np.array([s.step.accelerator.name == "Gpu-L" for s in slow])
    assert abs(float(np.mean((found - logs)[own]))) < 0.08
    assert abs(float(np.mean((found - logs)[~own]))) < 0.08


def test_batches_hold_every_step_once_with_its_sketch() -> None:
    steps = np.flatnonzero(SEEN)
    order = np.random.default_rng(0).permutation(len(TABLE.sketches))
    plan = batches(TABLE.sketch_of, steps, 10, order)
    assert np.array_equal(np.sort(np.concatenate([b.steps for b in plan])), steps)
    seen: set[int] = set()
    for batch in plan:
        assert np.array_equal(batch.sketches[batch.place], TABLE.sketch_of[batch.steps])
        assert not seen & set(batch.sketches.tolist()), "all steps of a sketch go together"
        seen |= set(batch.sketches.tolist())


def test_saved_and_loaded_answers_are_equal(net: NodeNet, tmp_path: Path) -> None:
    net.save(tmp_path, "one")
    loaded = NodeNet.load(tmp_path, "one")
    table = step_table([s.step for s in SAMPLES[:20]] + _new_device_steps()[:5])
    for ours, theirs in zip(net.log_times(table), loaded.log_times(table), strict=True):
        assert np.array_equal(ours, theirs)
    assert loaded.devices_ == net.devices_ and loaded.settings == net.settings
    assert np.array_equal(loaded.unknown_variance_, net.unknown_variance_)


def test_damaged_files_are_refused(net: NodeNet, tmp_path: Path) -> None:
    net.save(tmp_path, "one")
    weights, facts = tmp_path / "one.safetensors", tmp_path / "one.json"
    sound, text = weights.read_bytes(), facts.read_text()

    def refused(reason: str) -> None:
        with pytest.raises(DamagedArtifactError, match=reason):
            NodeNet.load(tmp_path, "one")

    weights.write_bytes(sound[: len(sound) // 2])
    refused("one.safetensors")
    weights.write_bytes(b"not tensors")
    refused("one.safetensors")
    weights.unlink()
    refused("one.safetensors")
    weights.write_bytes(sound)
    for broken in ("{", "[]", "{}"):
        facts.write_text(broken)
        refused("cannot be read")
    stored = json.loads(text)
    for columns in ("row_columns", "setting_columns"):
        # As many as today, in another order.
        facts.write_text(json.dumps({**stored, columns: stored[columns][::-1]}))
        refused("other columns")
    facts.write_text(json.dumps({**stored, "devices": stored["devices"][1:]}))
    refused("cannot be read")
    facts.unlink()
    refused("cannot be read")


def test_weights_that_are_not_finite_are_refused(net: NodeNet, tmp_path: Path) -> None:
    net.save(tmp_path, "one")
    broken = NodeNet.load(tmp_path, "one")
    broken.network_.effect[0, 0] = np.nan
    broken.save(tmp_path, "two")
    with pytest.raises(DamagedArtifactError, match="not finite"):
        NodeNet.load(tmp_path, "two")


def _operators(names: Sequence[str]) -> list[StepSample]:
    """Single operators of the made-up networks, without what a call costs."""
    found = []
    for sample in world.samples(names, noise=0.0)[::5]:
        sketch = sample.step.sketch
        graph = _first_operator(sketch)
        step = replace(sample.step, sketch=graph, alone=True)
        found.append(replace(sample, step=step, step_time_s=world.law_s(step)))
    return found


def _first_operator(sketch: StepSketch) -> StepSketch:
    """Return a sketch of one node: the first row of another."""
    per_row = {
        field.name: getattr(sketch, field.name)[:1]
        for field in fields(StepSketch)
        if field.name not in ("content_hash", "ops", "role_bytes", "view_count", "class_of_node")
    }
    return replace(sketch, ops=sketch.ops[:1], **per_row | {"count": np.ones(1)})


def _with_operators(names: Sequence[str]) -> tuple[StepTable, NodeNet]:
    everything = [*SAMPLES, *_operators(names)]
    table, logs, weights = world.table_of(everything)
    steps = np.arange(len(everything))
    return table, NodeNet(SETTINGS).fit(table, logs, weights, steps)


def test_operators_alone_make_no_device_known() -> None:
    table, found = _with_operators(("Gpu-S", "Gpu-New"))
    assert set(table.devices) == {*world.KNOWN, "Gpu-New"}
    assert found.devices_ == tuple(sorted(world.KNOWN))
    assert found.network_.effect.shape == (len(world.KNOWN) + 1, EFFECTS)
    # What was learned for one device is not answered for another.
    logs, _ = found.log_times(table)
    whole = ~table.alone
    truth = np.array([np.log(world.law_s(s.step)) for s in SAMPLES])
    assert np.mean(np.abs(logs[whole] - truth)) < 0.1


def test_operators_alone_are_learned() -> None:
    table, found = _with_operators(("Gpu-S", "Gpu-L"))
    logs, _ = found.log_times(table)
    alone = np.flatnonzero(table.alone)
    truth = np.log([world.law_s(s.step) for s in _operators(("Gpu-S", "Gpu-L"))])
    assert np.mean(np.abs(logs[alone] - truth)) < 0.15


def test_how_fast_a_host_calls_matters_to_whole_steps_alone() -> None:
    table, found = _with_operators(("Gpu-S",))
    before, _ = found.log_times(table)
    found.network_.effect[:, LAUNCH] += 1.0
    after, _ = found.log_times(table)
    assert np.array_equal(before[table.alone], after[table.alone])
    assert np.all(after[~table.alone] > before[~table.alone])


def _under(samples: Sequence[StepSample], framework: str, slower: float) -> list[StepSample]:
    return [
        replace(
            s, step=replace(s.step, software={"framework": framework}),
            step_time_s=slower * s.step_time_s,
        )
        for s in samples
    ]  # fmt: skip


def test_a_slower_framework_is_learned_as_one() -> None:
    slower = 1.6
    known = [SAMPLES[i] for i in np.flatnonzero(SEEN)]
    both = [*known, *_under(known, "tensorflow", slower)]
    net = NodeNet(SETTINGS).fit(*world.table_of(both), np.arange(len(both)))
    asked = [SAMPLES[i].step for i in np.flatnonzero(~SEEN)]
    foreign = [replace(step, software={"framework": "tensorflow"}) for step in asked]
    plain, other = (net.log_times(step_table(steps))[0] for steps in (asked, foreign))
    assert float(np.median(other - plain)) == pytest.approx(np.log(slower), abs=0.1)
