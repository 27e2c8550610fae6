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
from made_measurements import when_asked

from perfmodel.campaigns.clusters.ray_engine import RayEngine
from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.work import WorkOptions


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def device(word: str) -> CampaignDevice:
    node = _node()
    # The nodes are on one machine and have devices of their own.
    return CampaignDevice(spec=SPEC, host=node, device=f"gpu:{int(node[:8], 16)}")


def measure(job: Any, spec: Any, settings: Any) -> Any:
    # Each workload that is begun is written down, whatever becomes of the node.
    folder = Path(os.environ["TOLD"])
    begun = folder / f"begun-{_node()}"
    with begun.open("a") as file:
        file.write(f"{job.batch_size}\n")
    if begun.name == (folder / "victim").read_text() and len(begun.read_text().split()) == 2:
        (folder / "ready").touch()
        time.sleep(120)  # until it is killed
    # The other node leaves it something to be killed at, however late it starts.
    while begun.name != (folder / "victim").read_text() and not (folder / "ready").exists():
        time.sleep(0.02)
    return success(job, spec, step_time_s=0.001 * job.batch_size, threads=settings.threads)


def killing(cluster: Any, node: Any, folder: Path) -> None:
    """Kill a node once it has finished something and is at the next workload."""
    while not (folder / "ready").exists():
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)


def main() -> None:
    # Imported here: the file is read by test runners without Ray, too.
    from ray.cluster_utils import Cluster

    database, folder, campaign = sys.argv[1:]
    nodes = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=nodes)
    other = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    told = Path(os.environ["TOLD"])
    (told / "victim").write_text(f"begun-{other.node_id}")
    threading.Thread(target=killing, args=(cluster, other, told), daemon=True).start()
    said: list[str] = []
    engine = RayEngine(
        database=database,
        folder=Path(folder),
        options=WorkOptions(campaign=campaign, lease_s=5.0, poll_s=0.2),
        address=cluster.address,
        device=device,
        begin=when_asked(measure),
    )
    report = engine.run(lambda event: said.append(event.text))
    print(json.dumps({"said": said, "killed": other.node_id, "finished": report.finished}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
