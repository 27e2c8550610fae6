"""The collectives of two sources in one tidy table; the column ``source`` tells them apart.

The size is the one that the collectors state. For all-gather, reduce-scatter and all-to-all it is
the whole buffer of a rank as nccl-tests counts it: what a rank holds after an all-gather or before
a reduce-scatter. A rank then sends or receives ``(ranks - 1) / ranks`` of it.

The tables of oneCCL state for an all-gather what each rank contributes: their times grow with
``ranks - 1``, while those of its all-reduce and reduce-scatter keep to the rule above. What is
gathered is ``ranks`` times as much.
"""

from __future__ import annotations

from pathlib import Path

from perfmodel.importers.kernels.kernel_tables import accelerator_named, joined, word
from perfmodel.importers.public_tables import PublicTable, Row, positive
from perfmodel.importers.published import Origin, PublishedCollective, RejectedRow

FILE = "collectives.parquet"

_REQUIRED = (
    "source", "device", "topology", "collective", "num_gpus", "num_nodes", "bytes", "latency_us",
)  # fmt: skip
_OPTIONAL = ("table", "backend", "backend_version", "kernel_source", "variant", "dtype")
_COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "send_recv": "send_recv",
}


def read_collectives(
    file: Path, source: str, origin_source: str, licence: str
) -> tuple[list[PublishedCollective], tuple[RejectedRow, ...]]:
    """Read the rows of one source.

    Parameters
    ----------
    source : str
        Value of the column ``source``; rows of other sources are passed over.
    origin_source, licence : str
        For the records' origin.
    """
    table = PublicTable(
        files=(FILE,),
        source=origin_source,
        licence=licence,
        columns=_REQUIRED,
        optional=_OPTIONAL,
    )
    return table.records(file, _collective, lambda row: bool(row["source"] == source))


def _collective(row: Row, origin: Origin) -> PublishedCollective:
    ranks, hosts = int(positive(row, "num_gpus")), int(positive(row, "num_nodes"))
    if ranks < 2 or hosts > ranks:
        raise ValueError(f"{ranks} ranks on {hosts} hosts is no collective")
    library = row["backend"] or row["table"]
    collective = word(row, "collective", _COLLECTIVES)
    contributed = library == "oneccl" and collective == "all_gather"
    return PublishedCollective(
        collective=collective,
        accelerator=accelerator_named(row["device"]),
        ranks=ranks,
        hosts=hosts,
        size_bytes=positive(row, "bytes") * (ranks if contributed else 1),
        time_s=positive(row, "latency_us") * 1e-6,
        topology=str(row["topology"] or ""),
        origin=origin,
        backend=joined(library, row["backend_version"], row["kernel_source"], row["variant"]),
        dtype=str(row["dtype"] or ""),
    )
