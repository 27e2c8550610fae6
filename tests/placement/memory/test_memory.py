from __future__ import annotations

import dataclasses
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from perfmodel import Estimator, parse_request
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.placement.fitted import fitted
from perfmodel.placement.memory.memory import (
    ExcessBounds,
    MemoryColumns,
    excess_of,
    expert_share,
    memory_columns,
    memory_estimate,
    memory_plan,
    oom_probability,
    peak_tensor_bytes,
)
from perfmodel.placement.memory.memory_demand import constants_for
from perfmodel.placement.memory.memory_parts import MemoryPlan, memory_parts
from perfmodel.placement.memory.memory_profile import MemoryProfile, tensors_of
from perfmodel.placement.topology.topology import Plan
from perfmodel.store.profiles import ProfileStore
from perfmodel.types import Mode, Phase, Precision, Role

CATALOG = Catalog.default()
GB = 1e9
PROFILE = MemoryProfile(
    parameter_bytes=1 * GB,
    buffer_bytes=0.0,
    input_bytes=0.1 * GB,
    optimizer_state_bytes=2 * GB,
    gradient_bytes=1 * GB,
    activation_corners=np.array([0.5 * GB, 6 * GB]),
    gradient_corners=np.array([1 * GB, 0.1 * GB]),
    optimizer_bytes=1 * GB,
    largest_parameter_bytes=0.2 * GB,
    reserved_ratio=1.05,
    attention_bytes=0.0,
    convolution_bytes=0.2 * GB,
)


def _tensor(elements: int, role: Role, storage: int) -> Tensor:
    return Tensor(shape=(elements,), dtype="float32", role=role, storage=storage)


def _node(inputs: tuple[int, ...], outputs: tuple[int, ...], phase: Phase = Phase.FORWARD) -> Node:
    return Node(op="relu", phase=phase, inputs=inputs, outputs=outputs)


def _planned(
    profile: MemoryProfile, devices: list[AcceleratorSpec], plan: MemoryPlan
) -> MemoryColumns:
    return memory_columns(memory_parts(profile, plan), devices, replicas=plan.data)


def test_a_chain_keeps_only_neighbours_alive() -> None:
    # input 10 -> a 100 -> b 200 -> c 50 elements of 4 bytes; the input stays.
    tensors = (
        _tensor(10, Role.INPUT, 0),
        _tensor(100, Role.ACTIVATION, 1),
        _tensor(200, Role.ACTIVATION, 2),
        _tensor(50, Role.ACTIVATION, 3),
    )
    graph = Graph(nodes=(_node((0,), (1,)), _node((1,), (2,)), _node((2,), (3,))), tensors=tensors)
    # node 0: 10 + 100; node 1: 10 + 100 + 200; node 2: 10 + 200 + 50.
    assert peak_tensor_bytes(graph) == (10 + 100 + 200) * 4


def test_an_activation_kept_for_the_backward_pass_counts_until_then() -> None:
    tensors = (
        _tensor(10, Role.INPUT, 0),
        _tensor(100, Role.ACTIVATION, 1),
        _tensor(200, Role.ACTIVATION, 2),
        _tensor(50, Role.ACTIVATION, 3),
        _tensor(70, Role.ACTIVATION, 4),
    )
    nodes = (
        _node((0,), (1,)),
        _node((1,), (2,)),
        _node((2,), (3,)),
        _node((3, 1), (4,), Phase.BACKWARD),
    )
    # node 1: 10 + 100 + 200 = 310; node 2: 10 + 100 + 200 + 50 = 360; node 3: 10 + 100 + 50 + 70.
    assert peak_tensor_bytes(Graph(nodes=nodes, tensors=tensors)) == 360 * 4


def test_views_and_in_place_results_are_counted_once() -> None:
    plain = (_tensor(10, Role.INPUT, 0), _tensor(100, Role.ACTIVATION, 1))
    viewed = (*plain, _tensor(100, Role.ACTIVATION, 1))
    graph = Graph(nodes=(_node((0,), (1,)), _node((1,), (2,))), tensors=viewed)
    assert peak_tensor_bytes(graph) == (10 + 100) * 4


def test_parameters_gradients_and_optimizer_state_last_for_the_whole_step() -> None:
    # parameter 1000, its momentum 1000, input 8; forward writes 50, backward the gradient 1000,
    # the optimizer reads it into a temporary of 1000 and writes the parameter in place.
    tensors = (
        _tensor(8, Role.INPUT, 0),
        _tensor(1000, Role.PARAMETER, 1),
        _tensor(1000, Role.OPTIMIZER_STATE, 2),
        _tensor(50, Role.ACTIVATION, 3),
        _tensor(1000, Role.GRADIENT, 4),
        _tensor(1000, Role.ACTIVATION, 5),
        _tensor(1000, Role.PARAMETER, 1),
    )
    nodes = (
        _node((0, 1), (3,)),
        _node((3, 0), (4,), Phase.BACKWARD),
        _node((4, 2), (5,), Phase.OPTIMIZER),
        _node((1, 5), (6,), Phase.OPTIMIZER),
    )
    # The gradient (held for the next step to clear) and the temporary meet in the last node:
    # 8 + 1000 (parameter) + 1000 (state) + 1000 (gradient) + 1000 (temporary).
    assert peak_tensor_bytes(Graph(nodes=nodes, tensors=tensors)) == (8 + 4 * 1000) * 4


def test_a_graph_without_nodes_holds_its_inputs() -> None:
    assert peak_tensor_bytes(Graph(nodes=(), tensors=(_tensor(5, Role.INPUT, 0),))) == 20
    assert peak_tensor_bytes(Graph(nodes=(), tensors=())) == 0


def test_a_cpu_holds_its_tensors_and_its_process() -> None:
    cpu = dataclasses.replace(CATALOG.get("A100-SXM4-80GB"), kind="cpu", memory_bytes=16 * GB)
    # 1 + 0.1 + 2 held, 6 + 0.1 at the peak of the backward pass, 0.3 of the process.
    assert memory_estimate(PROFILE, cpu).peak_bytes == pytest.approx(9.5 * GB)


def test_a_gpu_holds_more_than_its_tensors() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    found = memory_estimate(PROFILE, gpu)
    assert found.peak_bytes > PROFILE.peak_tensor_bytes + 0.5 * GB
    assert found.capacity_bytes == gpu.memory_bytes
    assert (found.fits, found.oom_probability) == (True, 0.0)


def test_a_number_stands_for_tensors_of_which_only_the_peak_is_known() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    nothing, some = (memory_estimate(peak, gpu).peak_bytes for peak in (0.0, 5 * GB))
    assert some - nothing == pytest.approx(5 * GB)
    assert nothing > 0.3 * GB


def test_what_does_not_fit_shows_more_than_the_capacity_and_what_fits_less() -> None:
    gpu = CATALOG.get("V100-SXM2-16GB")
    scales = np.geomspace(0.01, 20, 57)
    found = [memory_estimate(_scaled(scale), gpu) for scale in scales]
    peaks = [memory.peak_bytes for memory in found]
    chances = [memory.oom_probability or 0.0 for memory in found]
    assert peaks == sorted(peaks)
    assert chances == sorted(chances)
    assert chances[0] < 0.05 and chances[-1] == 1
    for memory in found:
        assert memory.fits == (memory.peak_bytes <= memory.capacity_bytes)
        assert memory.fits == ((memory.oom_probability or 0.0) <= 0.5)


def _scaled(scale: float) -> MemoryProfile:
    return dataclasses.replace(PROFILE, activation_corners=PROFILE.activation_corners * scale)


def test_columns_are_the_single_answers() -> None:
    devices = [CATALOG.get(name) for name in ("V100-SXM2-16GB", "RTX-3090", "H100-SXM5-80GB")]
    columns = memory_columns(memory_parts(PROFILE), devices)
    for cell, device in enumerate(devices):
        one = memory_estimate(PROFILE, device)
        assert columns.peak_bytes[cell] == one.peak_bytes
        assert columns.fits[cell] == one.fits
        assert columns.oom_probability[cell] == one.oom_probability


def test_a_measured_workload_is_surer_than_one_never_seen() -> None:
    gpu = CATALOG.get("V100-SXM2-16GB")
    seen = Job(model="zoo/bert-base-squad", mode=Mode.TRAINING, precision=Precision.FP32)
    unseen = dataclasses.replace(seen, model="timm/vit_base_patch16_224")
    far = _scaled(0.3)
    known, unknown = (memory_estimate(far, gpu, job=job) for job in (seen, unseen))
    assert known.oom_probability is not None and unknown.oom_probability is not None
    assert known.oom_probability <= unknown.oom_probability


def test_sharding_never_takes_more_memory_than_copies() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    plan = MemoryPlan(data=8.0, zero_stage=np.arange(4.0))
    peaks = _planned(PROFILE, [gpu] * 4, plan).demand_bytes
    assert list(peaks) == sorted(peaks, reverse=True)
    # Stage 1 shares 2 GB of state among 8.
    assert peaks[0] - peaks[1] == pytest.approx(2 * GB * 7 / 8)


def test_state_that_no_device_holds_runs_out_for_sure() -> None:
    # Parameters, gradients and optimizer state of 1 + 1 + 2 GB, 20 times: 80 GB of 16.
    names = (
        "parameter_bytes", "gradient_bytes", "optimizer_state_bytes", "gradient_corners",
    )  # fmt: skip
    large = dataclasses.replace(PROFILE, **{name: 20 * getattr(PROFILE, name) for name in names})
    found = memory_estimate(large, CATALOG.get("V100-SXM2-16GB"))
    assert (found.fits, found.oom_probability) == (False, 1.0)


def test_the_more_of_a_demand_is_counted_to_the_byte_the_surer_it_is() -> None:
    # 20 GB are asked for of 16: with 11 GB of state that is surer to be too much than with 4.
    gpu = CATALOG.get("V100-SXM2-16GB")
    names = ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")
    state = dataclasses.replace(PROFILE, **{name: 2.75 * getattr(PROFILE, name) for name in names})

    def chance_at_20(profile: MemoryProfile) -> float:
        scaled = [
            dataclasses.replace(profile, activation_corners=profile.activation_corners * scale)
            for scale in np.linspace(0.1, 3, 200).tolist()
        ]
        asked = [memory_columns(memory_parts(one), [gpu]) for one in scaled]
        nearest = min(asked, key=lambda one: abs(float(one.demand_bytes[0]) - 20e9))
        assert nearest.demand_bytes[0] == pytest.approx(20e9, rel=0.01)
        return float(nearest.oom_probability[0])

    assert 0.1 < chance_at_20(PROFILE) < chance_at_20(state) - 0.05


def test_ranks_of_experts_hold_their_own_alone() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    plan = MemoryPlan(
        data=8.0, expert=np.array([1.0, 2.0, 8.0]), expert_share=0.8, zero_stage=np.zeros(3)
    )
    peaks = _planned(PROFILE, [gpu] * 3, plan).demand_bytes
    # Of 1 GB of parameters and 2 GB of state 0.8 are experts'; halves, then eighths are left.
    assert peaks[0] - peaks[1] > 3 * GB * 0.8 / 2
    assert peaks[0] - peaks[2] > 3 * GB * 0.8 * 7 / 8
    # Shared out over all, an expert on each rank is as much as a part of all experts.
    whole, split = (
        _planned(
            dataclasses.replace(PROFILE, largest_parameter_bytes=0.0),
            [gpu],
            MemoryPlan(data=8.0, expert=expert, expert_share=0.8, zero_stage=3.0),
        ).demand_bytes[0]
        for expert in (1.0, 8.0)
    )
    assert whole == pytest.approx(split)


def test_whole_experts_are_not_split_over_tensor_ranks() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    bare = dataclasses.replace(PROFILE, activation_corners=np.zeros(2), input_bytes=0.0)
    found = [
        _planned(
            bare, [gpu],
            MemoryPlan(data=data, tensor=2.0, expert=4.0, expert_share=0.8, zero_stage=0.0),
        ).demand_bytes[0]
        for data in (2.0, 4.0)
    ]  # fmt: skip
    # Of 1 GB of parameters and 2 GB of state and more 0.8 are experts': a quarter, or half of it.
    assert found[0] - found[1] > 3 * GB * 0.8 * (1 / 4 - 1 / 8) * 0.99


def test_the_config_says_which_parameters_are_experts() -> None:
    config = {
        "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "vocab_size": 100, "num_local_experts": 4, "num_experts_per_tok": 2,
    }  # fmt: skip
    job = Job(hf_config=config, mode=Mode.TRAINING)
    # Of a layer 4 experts of 3 products of 64 x 256, an attention of 4 of 64 x 64, a choice of
    # experts and 2 norms; of the ends two tables of 100 words and a norm.
    experts = 2 * 4 * 3 * 64 * 256
    rest = 2 * (4 * 64 * 64 + 64 * 4 + 2 * 64) + 2 * 100 * 64 + 64
    assert expert_share(job) == pytest.approx(experts / (experts + rest))
    assert memory_plan(Plan(expert=4), 4, job).expert_share == expert_share(job)
    assert expert_share(Job(model="zoo/gnmt", mode=Mode.TRAINING)) == 0.0


def test_context_ranks_share_out_what_replicas_share_out() -> None:
    gpu = CATALOG.get("A100-SXM4-80GB")
    plan = MemoryPlan(data=np.array([2.0, 2.0]), context=np.array([1.0, 4.0]), zero_stage=1.0)
    bare = dataclasses.replace(
        PROFILE, activation_corners=np.zeros(2), input_bytes=0.0, convolution_bytes=0.0
    )
    fewer, more = _planned(bare, [gpu] * 2, plan).demand_bytes
    # 2 GB of state in 2 parts or in 8, and 1 GB of the optimizer's temporaries as well.
    assert fewer - more == pytest.approx((2 + 1) * GB * (1 / 2 - 1 / 8))


def test_a_plan_says_how_many_replicas_there_are() -> None:
    assert memory_plan(None, 8).data == 8
    assert memory_plan(Plan(tensor=2, pipeline=2), 16).data == 4
    job = Job(model="zoo/gnmt", mode=Mode.TRAINING, accumulation_steps=4)
    assert memory_plan(Plan(pipeline=2), 4, job).micro_batches == 4


def test_the_chance_is_that_of_a_normal_residual() -> None:
    # One deviation above the capacity: Phi(1) = 0.8413.
    chance = oom_probability(excess_of(np.array([math.exp(0.1)]), np.array([1.0]), 0.1))
    assert chance[0] == pytest.approx(0.8413, abs=1e-4)


def test_what_ran_bounds_the_residual_of_the_job() -> None:
    # It ran with a deviation to spare: 1 - Phi(-0.5) / Phi(1) = 1 - 0.30854 / 0.84134.
    chance = oom_probability(np.array([-1.5, -1.0, 0.5]), ExcessBounds(ran=-1.0))
    assert chance == pytest.approx([0.0, 0.0, 0.6333], abs=1e-4)
    # It ran though it exceeds its room by two: 1 - Phi(-1) / Phi(0) = 1 - 0.15866 / 0.5.
    chance = oom_probability(np.array([2.0, 3.0, 7.0]), ExcessBounds(ran=2.0))
    assert chance == pytest.approx([0.0, 0.6827, 1.0], abs=1e-4)


def test_what_ran_out_bounds_it_from_the_other_side() -> None:
    # It ran out a deviation beyond its room: 1 - (Phi(-0.5) - Phi(-1)) / (1 - Phi(-1))
    # = 1 - (0.30854 - 0.15866) / 0.84134.
    chance = oom_probability(np.array([0.5, 1.0, 1.5]), ExcessBounds(ran_out=1.0))
    assert chance == pytest.approx([0.8219, 1.0, 1.0], abs=1e-4)
    # It ran out with two to spare: 1 - (Phi(1) - Phi(0)) / (1 - Phi(0)) = 1 - 0.34134 / 0.5.
    chance = oom_probability(np.array([-7.0, -3.0, -2.0]), ExcessBounds(ran_out=-2.0))
    assert chance == pytest.approx([0.0, 0.3173, 1.0], abs=1e-4)
    # It ran at the room and ran out a deviation beyond: 1 - (Phi(-0.5) - Phi(-1)) / (0.5 - Phi(-1))
    # = 1 - 0.14988 / 0.34134.
    chance = oom_probability(np.array([0.0, 0.5, 1.0]), ExcessBounds(ran=0.0, ran_out=1.0))
    assert chance == pytest.approx([0.0, 0.5609, 1.0], abs=1e-4)


def test_bounds_that_meet_leave_no_doubt() -> None:
    for ran in (-9.0, -1.0, 0.0, 3.0, 26.0):
        ran_out = math.nextafter(ran, math.inf)
        chance = oom_probability(np.array([ran - 1, ran, ran_out]), ExcessBounds(ran, ran_out))
        assert chance.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "bounds",
    [
        *(ExcessBounds(ran=ran) for ran in (-math.inf, -2.0, 1.0, 5.0, 24.0)),
        *(ExcessBounds(ran_out=ran_out) for ran_out in (-9.0, -2.0, 1.0, 24.0)),
        *(ExcessBounds(*both) for both in ((-3.0, -1.0), (-1.0, 2.0), (2.0, 2.5))),
    ],
)
def test_the_room_ends_where_a_step_no_longer_fits(bounds: ExcessBounds) -> None:
    columns = memory_columns(memory_parts(PROFILE), [CATALOG.get("V100-SXM2-16GB")])
    columns = dataclasses.replace(columns, bounds=bounds)
    for share, expected in ((0.999, True), (1.001, False)):
        demand = share * (columns.demand_bytes + columns.room_bytes)
        assert dataclasses.replace(columns, demand_bytes=demand).fits.tolist() == [expected]


def test_half_of_a_data_set_on_the_device_is_divided_among_replicas() -> None:
    held = fitted("memory")["workloads"]["zoo/ncf"]["held_bytes"]
    job = Job(model="zoo/ncf", mode=Mode.TRAINING, batch_size=1024)
    # Without gradients there are no buckets, in which replicas differ as well.
    bare = dataclasses.replace(PROFILE, gradient_bytes=0.0, gradient_corners=np.zeros(2))
    device = CATALOG.get("A100-SXM4-80GB")
    replicas = np.array([1.0, 4.0])
    columns = memory_columns(
        memory_parts(bare, MemoryPlan(data=replicas)),
        [device] * 2,
        constants=constants_for(job),
        replicas=replicas,
    )
    # (1 + 1/1) / 2 - (1 + 1/4) / 2 = 0.375.
    apart = columns.demand_bytes[0] - columns.demand_bytes[1]
    assert apart == pytest.approx(0.375 * held)


def test_a_pass_of_inference_holds_a_context_and_no_script() -> None:
    # 1 GB of tensors. The context of a process takes 0.8 to 0.9 GB on every generation that was
    # measured; what training scripts keep beside, gigabytes of it in the mean, is not held.
    profile = tensors_of(1e9)
    for name in ("V100-SXM2-16GB", "A100-SXM4-40GB", "T4", "H100-SXM5-80GB"):
        spec = CATALOG.get(name)
        serves, trains = (
            memory_estimate(profile, spec, job=Job(model="timm/resnet18", mode=mode)).peak_bytes
            for mode in (Mode.INFERENCE, Mode.TRAINING)
        )
        assert serves is not None and trains is not None
        assert 1.8e9 < serves < 2.2e9 < trains


def test_training_that_is_said_to_be_bare_holds_no_script_either() -> None:
    profile, spec = tensors_of(1e9), CATALOG.get("V100-SXM2-16GB")
    peaks = {
        script: memory_estimate(
            profile, spec, job=Job(model="timm/resnet18", mode=Mode.TRAINING, script=script)
        ).peak_bytes
        for script in (None, True, False)
    }
    assert peaks[None] == peaks[True]
    assert peaks[False] is not None and 1.8e9 < peaks[False] < 2.2e9
    # What scripts keep on a V100 is gigabytes.
    assert peaks[None] is not None and peaks[None] > peaks[False] + 2e9


@pytest.mark.parametrize("model", [*fitted("memory")["workloads"], "timm/resnet18"])
def test_a_bare_step_never_takes_more_than_its_script(model: str) -> None:
    spec, profile = CATALOG.get("V100-SXM2-16GB"), tensors_of(8e9)
    for precision in (Precision.FP32, Precision.AMP_FP16):
        job = Job(model=model, mode=Mode.TRAINING, precision=precision)
        usual, bare = (
            memory_estimate(profile, spec, job=dataclasses.replace(job, script=script)).peak_bytes
            for script in (None, False)
        )
        assert usual is not None and bare is not None
        assert bare < usual


def test_bare_training_fits_an_h200_as_it_was_measured() -> None:
    """Peaks that the allocator reserved, and 0.67 GB of context, of steps in ``profiles``."""
    answers = Estimator.from_folder("models")
    steps = ProfileStore(Path("profiles")).steps("H200-SXM")
    errors = []
    for step in steps:
        if step.mode is Mode.TRAINING and not step.execution and step.reserved_memory_bytes:
            question = {"job": {**step.job, "script": False}, "placement": "1xH200-SXM"}
            told = answers.estimate(*parse_request(question)).memory.peak_bytes
            assert told is not None
            errors.append(told / (step.reserved_memory_bytes + 0.67e9) - 1)
    assert len(errors) >= 15
    assert statistics.fmean(map(abs, errors)) < 0.06


def test_inference_is_as_unsure_as_a_workload_never_seen() -> None:
    # 12 of 16 GB of tensors: with 0.9 GB of context and a quarter for the allocator at the edge.
    spec, profile = CATALOG.get("V100-SXM2-16GB"), tensors_of(12e9)
    job = Job(model="zoo/resnet50-v1.5", mode=Mode.INFERENCE)
    found = memory_estimate(profile, spec, job=job).oom_probability
    assert found is not None and 0.1 < found < 0.9


def test_copies_in_16_bits_are_there_once_however_many_micro_batches_are_in_flight() -> None:
    # 100 bytes of parameters, whose 50 bytes in 16 bits are among 80 of activations.
    profile = dataclasses.replace(
        tensors_of(0.0),
        parameter_bytes=100.0,
        activation_corners=np.array([80.0]),
        gradient_corners=np.zeros(1),
    )
    plan = MemoryPlan(pipeline=4.0, micro_batches=8.0, has_copies=True)
    found = memory_parts(profile, plan).activation_corners
    # Four micro-batches of a stage's quarter of 30 bytes, and a quarter of the copies.
    assert found.tolist() == [[4 * 30 / 4 + 50 / 4]]
    each = memory_parts(profile, dataclasses.replace(plan, has_copies=False)).activation_corners
    assert each.tolist() == [[4 * 80 / 4]]
    one = MemoryPlan(micro_batches=8.0, has_copies=True)
    assert memory_parts(profile, one).activation_corners.tolist() == [[80.0]]


def test_scores_are_kept_where_attention_is_no_single_kernel() -> None:
    profile = dataclasses.replace(PROFILE, attention_bytes=2 * GB)

    def demand(**software: str) -> float:
        job = Job(model="m", mode=Mode.TRAINING, batch_size=1, software=software)
        device = CATALOG.get("A100-SXM4-80GB")
        found = memory_columns(memory_parts(profile), [device], constants=constants_for(job))
        return float(found.demand_bytes[0])

    fused = demand(torch="2.4.0")
    kept = 2 * GB * fitted("memory")["common"]["unfused_share"]
    assert demand(torch="2.4.0", attention="eager") > fused + kept
    assert demand(framework="tensorflow") == demand(torch="2.4.0", attention="eager")
    assert demand(torch="1.13.1", attention="fused") == fused < demand(torch="1.13.1")
