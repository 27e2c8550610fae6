from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_workloads import mlp

from perfmodel.errors import DamagedArtifactError
from perfmodel.graph.by_rule.fitting import rules_through
from perfmodel.graph.by_rule.packing import pack, unpack
from perfmodel.graph.by_rule.ruled_graph import RuledGraph
from perfmodel.graph.by_rule.rules import BATCH, SEQUENCE
from perfmodel.graph.by_rule.transfer import transferred
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Phase, Precision, Role
from perfmodel.zoo.resolve import capture_job


def _network(batch_size: int) -> Graph:
    return mlp(batch_size, [64, 32, 16], "relu", training=True)


def _rules() -> RuledGraph:
    found = rules_through({(size,): _network(size) for size in (2, 3, 8)}, (BATCH,))
    assert found is not None
    return found


def test_what_was_packed_gives_the_same_graphs() -> None:
    one, other = unpack(pack([_rules(), _rules()]))
    for size in (5, 1_000):
        expected = to_json(_network(size))
        assert to_json(one.at(size)) == to_json(other.at(size)) == expected


def test_layers_that_are_alike_take_next_to_nothing() -> None:
    def packed(layers: int) -> int:
        widths = [64] * (layers + 1)
        captured = {(b,): mlp(b, widths, "relu", training=True) for b in (2, 3, 8)}
        found = rules_through(captured, (BATCH,))
        assert found is not None
        return len(pack([found]))

    few, many = packed(8), packed(64)
    assert many - few < 56 * 20  # bytes a layer


@pytest.mark.parametrize("place", [0, 100, -1])
def test_damage_is_told(place: int) -> None:
    content = bytearray(pack([_rules()]))
    content[place] ^= 0xFF
    with pytest.raises(DamagedArtifactError):
        unpack(bytes(content))


def test_numbers_follow_batch_and_sequence() -> None:
    def attention(batch: int, length: int) -> Graph:
        read = Tensor(shape=(batch, length, 8), dtype="float32", role=Role.INPUT, storage=0)
        flat = (4 * batch, length * length)
        made = Tensor(shape=flat, dtype="float32", role=Role.ACTIVATION, storage=1)
        attrs = {"size": flat, "divisor": float(batch * (length - 1)), "scale": float("inf")}
        node = Node(op="view", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs=attrs)
        return Graph(nodes=(node,), tensors=(read, made))

    points = [(b, s) for b in (2, 3) for s in (5, 7, 9)] + [(6, 20)]
    found = rules_through({p: attention(*p) for p in points}, (BATCH, SEQUENCE))
    assert found is not None
    again = unpack(pack([found]))[0].at(32, 512)
    assert again.nodes == attention(32, 512).nodes
    assert again.tensors == attention(32, 512).tensors


def test_another_optimizer_or_precision_has_the_rules_of_what_it_shares() -> None:
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, precision=Precision.AMP_FP16)
    captured = {(b,): capture_job(replace(job, batch_size=b)) for b in (2, 3, 8)}
    rules = rules_through(captured, (BATCH,))
    assert rules is not None
    for other in (
        replace(job, optimizer="adamw"),
        replace(job, optimizer="lamb", precision=Precision.AMP_BF16),
    ):
        found = transferred(rules, (2,), capture_job(replace(other, batch_size=2)))
        assert found is not None
        assert to_json(found.at(50)) == to_json(capture_job(replace(other, batch_size=50)))


def test_another_structure_has_rules_of_its_own() -> None:
    assert transferred(_rules(), (2,), mlp(2, [64, 32, 32, 16], "relu", training=True)) is None
