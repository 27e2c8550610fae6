"""What tells steps of Megatron's core on accelerators since 2022 from those of before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.rank_groups import Dimension, stride_and_size
from perfmodel.placement.plan_steps.layer_time import (
    MOST_EXPERTS,
    device_times,
    launch_times_s,
)
from perfmodel.placement.plan_steps.plan_cells import Attention, PlanColumns
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack, chosen
from perfmodel.placement.plan_steps.plan_exchanges import exchanges
from perfmodel.placement.plan_steps.plan_memory import expert_replicas, layer_parameters
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.placement.plans.plan_answer import TransformerTraining
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.placement_checks import resolved_plan
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.placement.transformers.transformer_shape import TransformerShape

A100, H100, MI300X = (
    Catalog.default().get(n) for n in ("A100-SXM4-80GB", "H100-SXM5-80GB", "MI300X")
)
MIXTURE = shape(experts=16, experts_per_token=4)


def test_groups_of_warps_pass_over_the_masked_half() -> None:
    one = cells([choice()])
    other = replace(one, fused_attention=np.full(1, float(Attention.BY_WARP_GROUPS)))
    constants = PlanConstants(fused_score_efficiency=0.5, score_cycles=0.0, power=0.0)
    times = [device_times(x, exchanges(x), constants).forward_s[0] for x in (one, other)]
    # 4 x 256 tokens, 4 x 256 x 512 FLOP of scores for each at half of 1e14 FLOP/s: one half saved.
    assert times[0] - times[1] == pytest.approx(0.5 * 4 * 4 * 256 * 256 * 512 / 0.5e14)


def test_copies_for_one_host_are_sent_together() -> None:
    # 4 experts of a token on 2 hosts of 4 lie on 2 (1 - 2^-4) of them, not on 4.
    plans = cells([choice(data=8, expert=8)], [MIXTURE])
    alone = CommGroups.one_host(np.array([8.0]), LinkClass.NVSWITCH, 1e11)
    spread = replace(
        alone, hosts=np.array([2.0]), largest_share=np.array([4.0]),
        inter_class=np.array([int(LinkClass.RDMA)]),
        inter_bytes_per_s=np.array([1e9]), inter_latency_s=np.array([1e-6]),
    )  # fmt: skip
    single = replace(plans, shape=replace(plans.shape, experts_per_token=np.array([1.0])))
    found = [
        exchanges(replace(one, groups=replace(one.groups, expert=spread))).dispatch_s[0]
        for one in (plans, single)
    ]
    assert found[0] / found[1] == pytest.approx(2 * (1 - 0.5**4), rel=0.02)


def test_a_layer_waits_for_its_host_for_every_expert_that_a_rank_holds() -> None:
    constants = PlanConstants(layer_launch_s=3.0, expert_launch_s=6.0)
    plans = [choice(), choice(data=8, expert=8), choice(data=16, expert=16)]
    plain, *mixtures = (
        launch_times_s(cells([plan], [one]), constants)[0][0]
        for plan, one in [(choice(), shape()), *((plan, MIXTURE) for plan in plans)]
    )
    # 16, 2 and 1 of 16 experts
    assert (plain, mixtures) == (1.0, [33.0, 5.0, 3.0])


def test_more_experts_than_ranks_of_published_runs_hold_are_waited_for_no_longer() -> None:
    constants = PlanConstants(layer_launch_s=3.0, expert_launch_s=6.0)
    many = [shape(experts=count, experts_per_token=4) for count in (MOST_EXPERTS, 128)]
    found = [launch_times_s(cells([choice()], [one]), constants)[0][0] for one in many]
    assert found == [1.0 + 2.0 * MOST_EXPERTS] * 2


@pytest.mark.parametrize("parallel", [True, False])
def test_part_of_a_reduction_hides_behind_the_products_around_it(parallel: bool) -> None:
    plans = cells([choice(tensor=4, sequence_parallel=parallel)])
    short_s, long_s = 1e-6, 1.0

    def shown(reduce_s: float, part: float) -> tuple[float, float]:
        between = replace(exchanges(plans), reduce_s=np.array([reduce_s]))
        found = device_times(plans, between, PlanConstants(reduce_overlap=part))
        return found.forward_exchange_s[0], found.backward_exchange_s[0]

    nothing, half = (shown(short_s, part) for part in (0.0, 0.5))
    # Half of the reduction forward; backward of the gathering alone, where the sequence is split.
    assert nothing[0] - half[0] == pytest.approx(short_s / 2)
    assert nothing[1] - half[1] == pytest.approx(short_s / 4 if parallel else 0.0)
    # What lasts longer than they do stays.
    layer_s = device_times(plans, exchanges(plans), PlanConstants()).forward_s[0]
    assert 0 < shown(long_s, 0.0)[0] - shown(long_s, 0.5)[0] < layer_s


def test_copies_go_through_memory_for_each_expert() -> None:
    plans = cells([choice()], [MIXTURE])
    without, with_them = (
        device_times(plans, exchanges(plans), PlanConstants(dispatch_passes=n)).forward_s[0]
        for n in (0.0, 1.0)
    )
    # 4 x 256 tokens, 4 copies of 512 features in 16 bits at 1e12 bytes/s
    assert with_them - without == pytest.approx(4 * 256 * 4 * 512 * 2 / 1e12)


def test_experts_lie_whole_on_all_ranks_where_replicas_are_too_few() -> None:
    plan = Plan(data=2, tensor=2, expert=4)
    assert plan.has_whole_experts
    assert stride_and_size(plan, Dimension.EXPERT) == (1, 4)
    assert stride_and_size(plan, Dimension.EXPERT_DATA) == (4, 1)
    columns = cells([choice(data=2, tensor=2, expert=4)], [MIXTURE])
    own = layer_parameters(columns.shape, columns.plan)[1][0]
    # 4 of 16 networks, none of them split
    assert own == 4 * MIXTURE.expert_parameters
    assert expert_replicas(columns.plan)[0] == 1
    split = cells([choice(data=4, tensor=2, expert=4)], [MIXTURE])
    assert layer_parameters(split.shape, split.plan)[1][0] == own / 2


def test_experts_that_divide_no_ranks_are_refused() -> None:
    nodes = (Node(accelerator="H100-SXM5-80GB", count=8),)
    assert resolved_plan(Placement(nodes=nodes, plan=Plan(tensor=4, expert=8))).data == 2
    with pytest.raises(InvalidPlacementError, match="divides neither"):
        resolved_plan(Placement(nodes=nodes, plan=Plan(tensor=4, expert=16)))


def test_plans_that_split_are_carried_out_by_the_core_since_2022() -> None:
    training = TransformerTraining(shape=shape())
    split, whole = Plan(data=4, tensor=2), Plan(data=8)
    assert training.on([A100]).stack_of(split) is Stack.TORCH
    assert training.on([MI300X]).stack_of(split) is Stack.TORCH
    assert training.on([H100]).stack_of(whole) is Stack.TORCH
    assert training.on([H100]).stack_of(split) is Stack.MEGATRON_CORE


def test_software_that_is_stated_carries_every_plan_out() -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2}
    job = Job(hf_config=config, software={"nemo": "25.09"})
    training = TransformerTraining.of(job)
    assert training is not None
    assert training.on([H100]).stack_of(Plan(data=8)) is Stack.MEGATRON_CORE
    own = TransformerTraining.of(replace(job, software={"torch": "2.9"}))
    assert own is not None
    assert own.on([H100]).stack_of(Plan(tensor=8)) is Stack.TORCH
    both = TransformerTraining.of(replace(job, software={"torch": "2.9", "nemo": "25.09"}))
    assert both is not None
    assert both.on([H100]).stack_of(Plan(tensor=8)) is Stack.MEGATRON_CORE


def test_each_plan_has_the_constants_of_its_software() -> None:
    training = TransformerTraining(shape=shape()).on([H100])
    plans = PlanColumns.of([choice(data=2), choice(tensor=2)])
    found = training.constants_of(plans)
    torch, core = (PlanConstants.fitted(one) for one in (Stack.TORCH, Stack.MEGATRON_CORE))
    assert np.asarray(found.weight_efficiency).tolist() == [
        torch.weight_efficiency, core.weight_efficiency,
    ]  # fmt: skip


def test_columns_of_constants_answer_as_each_alone() -> None:
    plans = cells([choice(data=2), choice(tensor=2), choice(pipeline=2)])
    first, second = PlanConstants(), PlanConstants(weight_efficiency=0.4, overhead_s=1.0)
    mixed = chosen(np.array([True, False, False]), first, second)
    together = plan_step(plans, mixed).step_time_s
    each = [plan_step(plans, one).step_time_s for one in (first, second)]
    np.testing.assert_allclose(together, [each[0][0], each[1][1], each[1][2]])


def test_networks_of_two_matrices_are_read() -> None:
    from perfmodel.placement.transformers.transformer_jobs import transformer_shape

    found = transformer_shape(Job(model=None, hf_config={"model_type": "nemotron"}))
    assert isinstance(found, TransformerShape)
    # Nemotron-4 15B without its eight heads of keys and values: the library's own default is none.
    assert (found.layers, found.hidden_size, found.is_gated) == (32, 6144, False)
