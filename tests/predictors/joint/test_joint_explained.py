"""How answers of the joint predictor come about, and which measured cells it names."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import joint_world as world
import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import step_table
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import StepExplanation
from perfmodel.predictors.joint.job_memory import job_key, software_code
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_explained import (
    CELL,
    GRAPH,
    explain_jointly,
    near_cells,
    near_graphs,
)
from perfmodel.predictors.joint.joint_store import FACTS, load_joint, save_joint
from perfmodel.types import Compiler, MemoryFormat, Role

SAMPLES = world.samples()


def _find(name: str) -> AcceleratorSpec | None:
    return world.device(name) if name in world.KNOWN else None


def _explain(joint: JointPredictor, workload: Workload) -> StepExplanation:
    return explain_jointly(joint, workload, _find)


def _sample(model: str, device: str) -> StepSample:
    return next(s for s in SAMPLES if s.model == model and s.step.accelerator.name == device)


@pytest.mark.parametrize("device", ["Gpu-L", "Gpu-New", "Cpu"])
@pytest.mark.parametrize("training", [False, True])
def test_the_stages_end_at_the_answer(joint: JointPredictor, device: str, training: bool) -> None:
    workload = world.new_workload(device, training=training)
    found = _explain(joint, workload)
    (answer,) = joint.predict([Step.of(workload)])
    assert found.stages[-1].time_s == pytest.approx(answer.time_s, rel=1e-6)
    assert [stage.name for stage in found.stages[:3]] == [
        "roofline", "operator efficiencies", "launches",
    ]  # fmt: skip


def test_the_first_stage_is_the_roofline_of_every_node(joint: JointPredictor) -> None:
    workload = world.new_workload("Gpu-L")
    found, spec = _explain(joint, workload), workload.accelerator
    sketch = Step.of(workload).sketch
    at_peak = sketch.flops / spec.peak_flops["fp32"]
    moving = sketch.traffic_bytes / spec.bandwidth_bytes_per_s
    expected_s = float((sketch.count * np.maximum(at_peak, moving)).sum())
    assert found.stages[0].time_s == pytest.approx(expected_s)
    assert found.nodes.roofline_s == pytest.approx(expected_s)


def test_nodes_add_up_to_the_network_and_views_have_no_part(joint: JointPredictor) -> None:
    workload = world.new_workload("Gpu-L", training=True)
    nodes = _explain(joint, workload).nodes
    views = Step.of(workload).sketch.class_of_node < 0
    assert np.array_equal(nodes.time_s == 0, views)
    # The members that it averages are those of the answer: the same order of size.
    (answer,) = joint.predict([Step.of(workload)])
    assert nodes.time_s.sum() == pytest.approx(answer.time_s, rel=0.3)
    assert views.any()
    for column in (nodes.flops, nodes.moved_bytes, nodes.work_s, nodes.launch_s):
        assert not column[views].any()


def test_a_compiler_that_fuses_moves_fewer_bytes(joint: JointPredictor) -> None:
    # Of two rectifiers in a row, each reads and writes 4 x 100 numbers of 4 bytes: 6,400 bytes,
    # of which one kernel neither writes nor reads those in between: 3,200 bytes.
    make = made_up.GraphBuilder()
    (middle,) = make.node("relu", (make.tensor((4, 100), Role.INPUT),), [(4, 100)])
    make.node("relu", (middle,), [(4, 100)])
    eager = replace(world.new_workload("Gpu-L"), graph=make.build())
    fused = replace(eager, compiler=Compiler.INDUCTOR)
    plain, kernels = (_explain(joint, one).nodes for one in (eager, fused))
    assert plain.moved_bytes.sum() == 6_400
    assert kernels.moved_bytes.sum() == 3_200
    assert np.array_equal(kernels.flops, plain.flops)


def test_a_known_job_is_led_by_its_cells_and_a_new_one_is_not(joint: JointPredictor) -> None:
    def memory_factor(step: Step) -> float:
        table = step_table([step])
        logs = joint.log_stages(step, table, joint.row_parts(table))
        return math.exp(logs.memory - logs.trees)

    assert memory_factor(Step.of(world.new_workload("Gpu-S"))) == 1.0
    assert memory_factor(SAMPLES[0].step) != 1.0


def test_records_of_a_device_are_a_stage_of_their_own(joint: JointPredictor) -> None:
    slow = world.samples(("Gpu-New",), slower=1.5)[:8]
    workload = world.new_workload("Gpu-New")
    for predictor, expected in ((joint, 1.0), (joint.adapt(slow), 1.5)):
        times = {stage.name: stage.time_s for stage in _explain(predictor, workload).stages}
        factor = times["records of this accelerator"] / times["measured cells of this job"]
        assert factor == pytest.approx(expected, rel=0.25)


def test_a_graph_without_work_is_explained_in_finite_numbers(joint: JointPredictor) -> None:
    make = made_up.GraphBuilder()
    make.node("t", (make.tensor((4, 4), Role.INPUT),), [(4, 4)])
    workload = replace(world.new_workload("Gpu-S"), graph=make.build())
    found = _explain(joint, workload)
    assert all(np.isfinite(stage.time_s) and stage.time_s >= 0 for stage in found.stages)
    assert found.stages[-1].time_s > 0


def test_measured_times_are_restored_from_their_residuals(joint: JointPredictor) -> None:
    own, elsewhere = (_sample("made-up/f1-2", name) for name in ("Gpu-L", "Gpu-S"))
    near = near_cells(joint, own.step, _find, most=100)
    times = {point.accelerator: point for point in near if point.measured_s is not None}
    # What was measured on the CPU is another job.
    assert set(times) == {"Gpu-S", "Gpu-L"}
    assert near[0].accelerator == "Gpu-L"
    assert near[0].distance == pytest.approx(0.0, abs=1e-12)
    for sample in (own, elsewhere):
        point = times[sample.step.accelerator.name]
        assert point.measured_s == pytest.approx(sample.step_time_s, rel=1e-4)
        assert point.predicted_s is not None
        assert point.measured_over_predicted == pytest.approx(point.measured_s / point.predicted_s)
        assert point.source == CELL
        assert point.same_job


def test_cells_with_another_graph_have_a_ratio_but_no_time(joint: JointPredictor) -> None:
    asked = _sample("made-up/f1-2", "Gpu-L").step
    near = near_cells(joint, asked, _find, most=100)
    # Two batches and two modes on two GPUs: of these eight a quarter has the graph asked about.
    # Batches of the same architecture share its key.
    assert len(near) == 8
    others = near[2:]
    assert all(point.measured_s is None and point.predicted_s is None for point in others)
    assert all(point.measured_over_predicted is not None for point in others)
    assert [p.distance for p in others] == sorted(p.distance or 0.0 for p in others)


def test_a_cell_on_an_unknown_device_keeps_its_ratio(joint: JointPredictor) -> None:
    near = near_cells(joint, SAMPLES[0].step, lambda name: None)
    assert near
    assert all(point.measured_s is None for point in near)
    assert all(point.measured_over_predicted is not None for point in near)


def test_settings_of_a_cell_are_named_where_they_are_not_the_usual(joint: JointPredictor) -> None:
    # A step in another layout has the same cells; their own layout is the usual one.
    asked = replace(SAMPLES[0].step, memory_format=MemoryFormat.CHANNELS_LAST)
    label = near_cells(joint, asked, _find)[0].workload
    assert label == "inference batch 4 fp32"


def test_a_new_job_is_placed_among_the_graphs(joint: JointPredictor) -> None:
    step = Step.of(world.new_workload("Gpu-L"))
    assert near_cells(joint, step, _find) == ()
    graphs = near_graphs(joint, step, _find, most=3)
    models = [point.workload.split()[0] for point in graphs]
    assert len(set(models)) == len(graphs) == 3
    assert [g.distance for g in graphs] == sorted(g.distance or 0.0 for g in graphs)
    assert {point.source for point in graphs} == {GRAPH}
    (answer,) = joint.predict([step])
    assert models[0] == answer.nearest[0]
    # Of each model the cell that is most like the step: the same device, mode and batch.
    assert {point.accelerator for point in graphs} == {"Gpu-L"}
    assert all(point.workload.endswith("inference batch 4 fp32") for point in graphs)
    # Ratios of samples of one law with 2 % of noise.
    assert all(0.7 < (point.measured_over_predicted or 0.0) < 1.4 for point in graphs)


def test_graphs_of_a_stored_predictor_know_their_cells(
    joint: JointPredictor, tmp_path: Path
) -> None:
    step = Step.of(world.new_workload("Gpu-L"))
    save_joint(joint, tmp_path)
    before, after = (near_graphs(one, step, _find) for one in (joint, load_joint(tmp_path)))
    assert [p.workload for p in after] == [p.workload for p in before]
    ratios = [[p.measured_over_predicted for p in points] for points in (before, after)]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-6)
    path = tmp_path / FACTS
    facts = json.loads(path.read_text())
    for wrong in ([10**6] * len(facts["labels"]), [0]):
        path.write_text(json.dumps({**facts, "graph_jobs": wrong}))
        with pytest.raises(DamagedArtifactError):
            load_joint(tmp_path)


def test_a_cell_of_another_framework_names_it(joint: JointPredictor) -> None:
    own = _sample("made-up/f1-2", "Gpu-L")
    job = job_key(own.step)
    codes, residuals = joint.known_.memory.cells_[job]
    under = codes.copy()
    under[:, 4] = software_code({"framework": "tensorflow"})
    foreign = copy.copy(joint)
    memory = copy.copy(joint.known_.memory)
    memory.cells_ = {**memory.cells_, job: (under, residuals)}
    foreign.known_ = replace(joint.known_, memory=memory)
    labels = [point.workload for point in near_cells(foreign, own.step, _find)]
    assert labels and all(label.endswith(" tensorflow") for label in labels)
    assert not any("tensorflow" in p.workload for p in near_cells(joint, own.step, _find))
