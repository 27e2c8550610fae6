import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.placement.job_types.job_type_cells import job_type_cells
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Neighbour, Node, Placement
from perfmodel.types import Mode


def on(*nodes: Node, network: str | None = None, beside: tuple[str, ...] = ()) -> Placement:
    return Placement(
        nodes=nodes,
        network=named_network(network) if network else None,
        shared_with=tuple(Neighbour(job_type=name) for name in beside),
    )


def test_columns_say_what_a_placement_is() -> None:
    cells = job_type_cells(
        [("LM (batch size 5)", 1), ("A3C", 4)],
        [
            on(Node(accelerator="K80", count=2, repeat=2), network="ib-200g"),
            on(Node(accelerator="V100-SXM2-16GB"), beside=("LM (batch size 80)",)),
        ],
        catalog=Catalog.default(),
    )
    assert cells.job_type.tolist() == ["LM", "A3C"]
    assert cells.batch_size.tolist() == [5.0, 4.0]
    assert cells.count.tolist() == [4.0, 1.0]
    assert cells.hosts.tolist() == [2.0, 1.0]
    # 200 Gbit/s over the reference of 100 Gbit/s: log 2; nothing inside one host.
    assert cells.log_wire.tolist() == [pytest.approx(np.log(2)), 0.0]
    assert cells.partner_type.tolist() == ["", "LM"]
    assert cells.partner_batch.tolist() == [1.0, 80.0]
    assert cells.label(0) == "LM, batch 5, on 4 x K80 over 2 hosts"


def test_mixed_accelerators_are_as_fast_as_the_slowest() -> None:
    catalog = Catalog.default()
    jobs = [("x", 1)] * 2
    places = [
        on(Node(accelerator="K80")),
        on(Node(accelerator="K80"), Node(accelerator="V100-SXM2-16GB")),
    ]
    cells = job_type_cells(jobs, places, catalog=catalog)
    assert cells.log_speed[0] == cells.log_speed[1]
    assert cells.accelerator[1] == "K80+V100-SXM2-16GB"


def test_inference_is_another_job_type() -> None:
    place = [on(Node(accelerator="K80"))]
    cells = job_type_cells([("x", 1)], place, catalog=Catalog.default(), mode=Mode.INFERENCE)
    assert cells.job_type[0] == "x [inference]"


@pytest.mark.parametrize(("job", "pointer"), [(("", 1), "job_type"), (("x", 0), "batch_size")])
def test_nonsense_is_refused_with_the_place(job: tuple[str, int], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        job_type_cells([job], [on(Node(accelerator="K80"))], catalog=Catalog.default())
    assert refused.value.pointer.endswith(pointer)


def test_two_jobs_beside_are_refused() -> None:
    place = on(Node(accelerator="K80"), beside=("a", "b"))
    with pytest.raises(InvalidInputError, match="one other job"):
        job_type_cells([("x", 1)], [place], catalog=Catalog.default())
