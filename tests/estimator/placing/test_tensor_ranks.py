"""Language models in inference that several accelerators hold between them."""

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.tables.ranking import RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Precision

pytest.importorskip("torch")
JOB = Job(
    hf_config={
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 32000,
    },
    batch_size=4,
    precision=Precision.BF16,
    sequence_length=1024,
)  # fmt: skip
HOST = "A100-SXM4-80GB"


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


def _ask(estimator: Estimator, placement: str, job: Job = JOB) -> Estimate:
    return estimator.estimate(job, parse_placement(placement))


def _bytes(answer: Estimate) -> float:
    return answer.memory.peak_bytes or 0.0


def test_more_ranks_take_less_time_and_memory_and_exchange_more(estimator: Estimator) -> None:
    one, *ranks = [_ask(estimator, f"{n}x{HOST}" + f" tp={n}" * (n > 1)) for n in (1, 2, 4, 8)]
    assert one.sync_time_s == 0
    before = one
    for count, found in zip((2, 4, 8), ranks, strict=True):
        assert one.compute_time_s / count < found.compute_time_s < before.compute_time_s
        assert before.sync_time_s < found.sync_time_s
        assert found.step_time_s == pytest.approx(found.compute_time_s + found.sync_time_s)
        assert _bytes(before) > _bytes(found) > 0
        assert found.throughput.samples_per_second == pytest.approx(4 / found.step_time_s)
        before = found


def test_replicas_of_ranks_work_side_by_side(estimator: Estimator) -> None:
    two, eight = _ask(estimator, f"2x{HOST} tp=2"), _ask(estimator, f"8x{HOST} tp=2")
    assert eight.step_time_s == pytest.approx(two.step_time_s)
    assert eight.throughput.samples_per_second == pytest.approx(
        4 * two.throughput.samples_per_second
    )


def test_slower_links_take_longer(estimator: Estimator) -> None:
    hosts = (f"4x{HOST}", f"4x{HOST}[pcie4]", f"2x(2x{HOST})@eth-10g")
    fast, slow, far = (_ask(estimator, f"{host} tp=4").sync_time_s for host in hosts)
    assert fast < slow < far


def test_one_batch_passes_the_stages(estimator: Estimator) -> None:
    one, staged = _ask(estimator, f"2x{HOST} tp=2"), _ask(estimator, f"4x{HOST} tp=2 pp=2")
    assert one.step_time_s < staged.step_time_s < 1.1 * one.step_time_s
    assert any("One batch passes all stages" in text for text in staged.warnings)
    alone, cut = _ask(estimator, HOST), _ask(estimator, f"2x{HOST} pp=2")
    assert alone.step_time_s <= cut.step_time_s < 1.1 * alone.step_time_s
    assert _bytes(cut) < _bytes(alone)


def test_a_table_and_an_explanation_say_the_same(estimator: Estimator) -> None:
    places = [parse_placement(text) for text in (HOST, f"4x{HOST} tp=4", f"8x{HOST} tp=8")]
    table = estimator.matrix([JOB], places)
    single = [estimator.estimate(JOB, place) for place in places]
    assert table.step_time_s[0].tolist() == pytest.approx([one.step_time_s for one in single])
    assert table.peak_bytes[0].tolist() == pytest.approx([_bytes(one) for one in single])
    ranked = estimator.rank(JOB, places, RankQuestion())
    assert {one.placement: one.estimate for one in ranked.best} == dict(enumerate(single))
    told = estimator.explain(JOB, places[1])
    assert told.estimate.step_time_s == single[1].step_time_s
    assert told.compute_time_s == pytest.approx(single[1].compute_time_s)


def test_a_power_limit_slows_what_a_rank_does(estimator: Estimator) -> None:
    free, held = (_ask(estimator, f"4x{HOST} tp=4{more}") for more in ("", " power=200"))
    assert held.sync_time_s == free.sync_time_s
    assert 1.05 * free.compute_time_s < held.compute_time_s < 2 * free.compute_time_s


@pytest.mark.parametrize("word", ["cp=2", "ep=2", "zero=3", "sp"])
def test_what_training_alone_splits_is_refused(estimator: Estimator, word: str) -> None:
    with pytest.raises(InvalidPlacementError, match="in inference it is [01]"):
        _ask(estimator, f"4x{HOST} tp=2 {word}")
