"""A campaign on a Ray cluster of two nodes, of which one is killed; run by an interpreter with Ray.

``python ray_child.py DATABASE FOLDER CAMPAIGN``; prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from campaign_world import SPEC, success
from ray.cluster_utils import Cluster

from perfmodel.campaigns.clusters.ray_engine import RayEngine
from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.work import WorkOptions
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.sql.connections import Connections


def device() -> CampaignDevice:
    import ray

    node = ray.get_runtime_context().get_node_id()
    return CampaignDevice(spec=SPEC, host=node, slot=node)


def measure(job: Any, spec: Any, settings: Any) -> Any:
    # Each workload that is begun is written down, whatever becomes of the node.
    with open(os.environ["BEGUN"], "a") as file:
        file.write(f"{job.batch_size}\n")
    time.sleep(0.3)
    return success(job, spec, step_time_s=0.001 * job.batch_size, threads=settings.threads)


def killing(cluster: Any, node: Any, database: str, campaign: str) -> None:
    """Kill a node once it has finished something and is at the next workload."""
    connections = Connections(database)
    tasks = CampaignStore(connections)
    while True:
        on_node = [
            task for task in tasks.all_tasks(campaign) if task.owner.startswith(node.node_id[:32])
        ]
        states = {task.state for task in on_node}
        if {TaskState.DONE, TaskState.RUNNING} <= states:
            break
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)
    connections.close()


def main() -> None:
    database, folder, campaign = sys.argv[1:]
    nodes = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=nodes)
    other = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    threading.Thread(target=killing, args=(cluster, other, database, campaign), daemon=True).start()
    said: list[str] = []
    engine = RayEngine(
        database=database,
        folder=Path(folder),
        options=WorkOptions(campaign=campaign, lease_s=2.0, poll_s=0.2),
        address=cluster.address,
        device=device,
        measure=measure,
    )
    report = engine.run(lambda event: said.append(event.text))
    print(json.dumps({"said": said, "killed": other.node_id, "finished": report.finished}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
