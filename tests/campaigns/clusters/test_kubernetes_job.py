"""The Job of a campaign."""

from __future__ import annotations

import json
from pathlib import Path

from campaign_world import CampaignWorld, jobs
from click.testing import CliRunner
from migrated import migrated_sqlite

from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers
from perfmodel.campaigns.clusters.kubernetes_job import KubernetesOptions, kubernetes_job
from perfmodel.cli import cli


def test_each_pod_is_a_worker_with_its_own_gpu() -> None:
    workers = ClusterWorkers(
        campaign="ab12", database="postgresql://me:secret@host/db", workers=4, gpus=1,
        out="/profiles",
    )  # fmt: skip
    options = KubernetesOptions(
        image="registry/perfmodel:1", claim="records", namespace="ml",
        node_selector={"nvidia.com/gpu.product": "A10"},
    )  # fmt: skip
    job = kubernetes_job(workers, options)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["metadata"]["namespace"] == "ml"
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (4, 4)
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "A10"}
    [container] = pod["containers"]
    assert container["command"] == [
        "perfmodel", "campaign", "work", "ab12", "--out", "/profiles", "--device", "gpu",
    ]  # fmt: skip
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert container["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
    # The URL comes from a secret; the manifest says nothing of it.
    assert "secret@" not in json.dumps(job)
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "perfmodel-database"


def test_the_command_prints_what_kubectl_reads(tmp_path: Path) -> None:
    world = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    name = world.enter(jobs(1))
    world.close()
    arguments = [
        "campaign", "export", "kubernetes", name, "--database", world.url, "--image", "i",
        "--claim", "records", "--node-label", "zone=a",
    ]  # fmt: skip
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 0, run.output
    pod = json.loads(run.stdout)["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"zone": "a"}
    assert "resources" not in pod["containers"][0]
    assert "workers on other hosts need a PostgreSQL" in run.stderr
    refused = CliRunner().invoke(cli, [*arguments, "--node-label", "zone"])
    assert (refused.exit_code, "NAME=VALUE" in refused.stderr) == (2, True)
