"""Apply a run through dstack's own plugin and through ours; started by a venv that has dstack."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from dstack._internal.core.errors import ServerClientError
from dstack._internal.core.models.fleets import FleetSpec
from dstack._internal.core.models.runs import RunSpec
from dstack.api import GPU, Resources, Task
from dstack.plugins.builtin.rest_plugin import RESTPlugin
from perfmodel_dstack import PerfModelPlugin

JOB = {"model": "timm/huge", "mode": "training", "batch_size": 1}


def run_spec() -> RunSpec:
    """Return what a user would apply."""
    task = Task(
        name="x",
        commands=["true"],
        env={"PERFMODEL_JOB": json.dumps(JOB)},
        resources=Resources(gpu=GPU(name=["P4", "V100", "A100"], count=1)),
    )
    return RunSpec(
        run_name="x", repo_id="r", repo_data={"repo_type": "virtual"}, configuration_path="p",
        configuration=task, profile=None, ssh_key_pub="k",
    )  # fmt: skip


def names(policy: Any) -> list[str] | str:
    """Return the accelerators that a policy leaves of a run."""
    try:
        applied = policy.on_run_apply("me", "main", run_spec())
    except ServerClientError:
        return "refused"
    found: list[str] = applied.configuration.resources.gpu.name
    return found


def fleet(policy: Any) -> str:
    """Return what a policy does to a fleet."""
    spec = FleetSpec(configuration={"type": "fleet", "name": "f", "nodes": 1}, profile={"name": ""})
    try:
        return "unchanged" if policy.on_fleet_apply("me", "main", spec) == spec else "changed"
    except ServerClientError:
        return "refused"


def applied(uri: str) -> dict[str, Any]:
    """Return what the policies do where the service is said to be at an address."""
    os.environ["DSTACK_PLUGIN_SERVICE_URI"] = uri
    [theirs] = RESTPlugin().get_apply_policies()
    [ours] = PerfModelPlugin().get_apply_policies()
    return {"their plugin": names(theirs), "our plugin": names(ours), "fleet": fleet(theirs)}


if __name__ == "__main__":
    print(json.dumps([applied(uri) for uri in sys.argv[1:]]))
