"""One suite for every predictor: join by a line in PREDICTORS_UNDER_TEST."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.roofline import step_bound_s
from perfmodel.graph.ir import Graph, Node
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.members.constant import ConstantRatePredictor
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.predictors.members.ensemble import EnsemblePredictor
from perfmodel.predictors.members.gnn import GraphPredictor
from perfmodel.predictors.members.gnn_settings import NetworkSettings
from perfmodel.predictors.members.graph_trees import TabularPredictor
from perfmodel.predictors.members.operator_trees import OperatorPredictor
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.roofline import RooflinePredictor

SMALL = BoosterSettings(rounds=40, depth=4, threads=1)

PREDICTORS_UNDER_TEST: dict[str, Callable[[], Predictor]] = {
    "roofline": RooflinePredictor,
    "constant": ConstantRatePredictor,
    "efficiency": EfficiencyPredictor,
    "gbdt": lambda: TabularPredictor(SMALL),
    "operators": lambda: OperatorPredictor(SMALL),
    "gnn": lambda: GraphPredictor(NetworkSettings(hidden=16, epochs=6)),
    "ensemble": lambda: EnsemblePredictor(("efficiency", "gbdt"), folds=3),
}

SAMPLES = made_up.samples(families=6)
WORKLOADS = [sample.workload for sample in SAMPLES]


@pytest.fixture(scope="module", params=list(PREDICTORS_UNDER_TEST))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def make(name: str) -> Callable[[], Predictor]:
    return PREDICTORS_UNDER_TEST[name]


@pytest.fixture(scope="module")
def fitted(make: Callable[[], Predictor]) -> Predictor:
    return make().fit(SAMPLES)


def test_is_final_and_has_a_name(fitted: Predictor, name: str) -> None:
    assert type(fitted).name == name
    assert getattr(type(fitted), "__final__", False)


def test_refuses_to_answer_unfitted_unless_it_needs_no_fit(make: Callable[[], Predictor]) -> None:
    predictor = make()
    if predictor.needs_fit:
        with pytest.raises(TrainingError, match="fit"):
            predictor.predict(WORKLOADS[:1])
    else:
        assert predictor.predict(WORKLOADS[:1])[0] > 0


def test_refuses_to_save_unfitted(make: Callable[[], Predictor], tmp_path: Path) -> None:
    if make().needs_fit:
        with pytest.raises(TrainingError, match="fit"):
            make().save(tmp_path)


def test_answers_are_finite_positive_and_one_per_workload(fitted: Predictor) -> None:
    answers = fitted.predict(WORKLOADS)
    assert answers.shape == (len(WORKLOADS),)
    assert answers.dtype == np.float64
    assert np.all(np.isfinite(answers)) and np.all(answers > 0)
    assert fitted.predict([]).shape == (0,)


def test_never_below_the_bound_of_the_priced_nodes(fitted: Predictor) -> None:
    fast = dataclasses.replace(made_up.DEVICE, name="slow", peak_flops={"fp32": 1e6})
    workloads = [dataclasses.replace(w, accelerator=fast) for w in WORKLOADS]
    bounds = np.array([step_bound_s(workload) for workload in workloads])
    assert np.all(fitted.predict(workloads) >= bounds * (1 - 1e-12))


def test_saves_and_loads_to_the_same_answers(fitted: Predictor, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {
        ".json",
        ".safetensors",
    }
    loaded = type(fitted).load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(WORKLOADS), fitted.predict(WORKLOADS))


def test_refuses_an_empty_folder(fitted: Predictor, tmp_path: Path) -> None:
    with pytest.raises(DamagedArtifactError):
        type(fitted).load(tmp_path)


def test_same_samples_and_seed_give_the_same_answers(
    make: Callable[[], Predictor], fitted: Predictor
) -> None:
    again = make().fit(SAMPLES)
    np.testing.assert_array_equal(again.predict(WORKLOADS), fitted.predict(WORKLOADS))


def test_order_and_company_of_workloads_do_not_matter(fitted: Predictor) -> None:
    together = fitted.predict(WORKLOADS)
    np.testing.assert_allclose(fitted.predict(WORKLOADS[::-1])[::-1], together, rtol=1e-5)
    alone = np.concatenate([fitted.predict([workload]) for workload in WORKLOADS[:4]])
    np.testing.assert_allclose(alone, together[:4], rtol=1e-5)


def test_names_and_order_of_independent_nodes_do_not_matter(fitted: Predictor) -> None:
    workload = next(w for w in WORKLOADS if len(w.graph.nodes) > 15)
    shuffled = dataclasses.replace(workload, graph=reordered(workload.graph))
    assert [n.op for n in shuffled.graph.nodes] != [n.op for n in workload.graph.nodes]
    np.testing.assert_allclose(fitted.predict([shuffled]), fitted.predict([workload]), rtol=1e-5)


def test_node_times_add_up_to_the_step(fitted: Predictor) -> None:
    workload = WORKLOADS[1]
    times = fitted.predict_nodes(workload)
    if times is None:
        return
    assert times.shape == (len(workload.graph.nodes),)
    assert np.all(times >= 0)
    # At most the step: what is added to reach the bound belongs to no node.
    assert times.sum() == pytest.approx(fitted.predict([workload])[0], rel=1e-6)


@pytest.mark.parametrize("time_s", [0.0, -1.0, float("nan"), float("inf")])
def test_refuses_bad_times(make: Callable[[], Predictor], time_s: float) -> None:
    if not make().needs_fit:
        return
    bad: list[Sample] = [*SAMPLES, dataclasses.replace(SAMPLES[0], step_time_s=time_s)]
    with pytest.raises(TrainingError, match="step time"):
        make().fit(bad)


def test_refuses_no_samples(make: Callable[[], Predictor]) -> None:
    if make().needs_fit:
        with pytest.raises(TrainingError, match="at least"):
            make().fit([])


def reordered(graph: Graph) -> Graph:
    """Move every node as far back as its inputs allow, in reverse order of the nodes."""
    producer, done, order = graph.producer, set(), []
    while len(order) < len(graph.nodes):
        for position in reversed(range(len(graph.nodes))):
            needed = {producer[i] for i in graph.nodes[position].inputs} - {-1}
            if position not in done and needed <= done:
                done.add(position)
                order.append(position)
                break
    nodes = tuple(
        Node(op=n.op, phase=n.phase, inputs=n.inputs, outputs=n.outputs, attrs=n.attrs, name="x")
        for n in (graph.nodes[position] for position in order)
    )
    return Graph(nodes=nodes, tensors=graph.tensors)
