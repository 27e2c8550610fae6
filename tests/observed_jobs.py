"""Observed steps of jobs whose graphs are registered, in a database."""

from __future__ import annotations

import synthetic_workloads as made_up

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.canonical import to_json
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database, Registration
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import StoredObservation
from perfmodel.store.state.observations import ObservationStore
from perfmodel.types import Mode


def observe_jobs(
    database: Database, *, cells: int, placement: str = "T4", reporter: str = "somebody"
) -> ObservationStore:
    """Register graphs, one a cell, and report a step of each: keys ``step 0``, ``step 1``, ..."""
    store = ObservationStore(database.connections)
    seen = []
    for number in range(cells):
        batch = 4 + number
        graph = made_up.mlp(batch * 16, [256, 256, 128], "relu", training=True)
        database.put_graph(graph.content_hash, to_json(graph))
        database.register(
            Registration(graph_hash=graph.content_hash, mode="training", batch_size=batch)
        )
        workload = made_up.workload(graph, batch, training=True, device=Catalog.default().get("T4"))
        job = Job(graph=graph.content_hash, mode=Mode.TRAINING, batch_size=batch)
        seen.append(
            StoredObservation(
                job=StoredJob(
                    ref=job.reference,
                    family=job.family,
                    content=job.content.decode(),
                ),
                key=f"step {number}",
                content_hash=str(number),
                placement=f'"{placement}"',
                batch_size=batch,
                accumulation_steps=1,
                step_time_s=2.0 * float(made_up.hidden_node_times(workload).sum()),
                sync_time_s=None,
                reporter=reporter,
            )
        )
    store.add(seen)
    return store
