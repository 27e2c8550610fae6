"""The job array of a campaign; run by a real Slurm, controller and node."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from migrated import migrated_sqlite
from slurm_packages import Slurm, unpacked
from waiting import PATIENCE_S, until

from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers
from perfmodel.campaigns.clusters.slurm_script import slurm_script
from perfmodel.cli import cli
from perfmodel.errors import InvalidInputError
from perfmodel.store.profiles import ProfileStore

ROOT = Path(__file__).resolve().parents[3]


def test_each_element_of_the_array_is_a_worker() -> None:
    workers = ClusterWorkers(
        campaign="ab12", database="postgresql://host/db", workers=4, gpus=1, out="/shared/profiles"
    )
    lines = slurm_script(workers, options=["--partition=a100", "--time=60"]).splitlines()
    assert lines[0] == "#!/bin/bash"
    for directive in ("--array=0-3", "--gres=gpu:1", "--requeue", "--partition=a100", "--time=60"):
        assert f"#SBATCH {directive}" in lines
    assert lines[-2:] == [
        "export PERFMODEL_DATABASE=postgresql://host/db",
        "exec perfmodel campaign work ab12 --out /shared/profiles --device gpu",
    ]


def test_a_password_is_not_written_down() -> None:
    workers = ClusterWorkers(campaign="ab12", database="postgresql://me:secret@host/db")
    script = slurm_script(workers)
    assert "secret" not in script
    # Without the variable a worker would measure for a database of its own: it says what is amiss.
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env={}
    )
    assert ran.returncode != 0
    assert "PERFMODEL_DATABASE: is not set" in ran.stderr


@pytest.mark.parametrize("option", ["partition=a100", "--time=1\nrm -rf x", ""])
def test_what_is_no_option_is_refused(option: str) -> None:
    with pytest.raises(InvalidInputError, match="no option of sbatch"):
        slurm_script(ClusterWorkers(campaign="a", database="sqlite:///x"), options=[option])


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if os.geteuid() != 0:
        pytest.skip("slurmd runs the jobs of others, for which it has to be root")
    root = unpacked(tmp_path_factory.mktemp("slurm"))
    cluster = Slurm(root=root, folder=tmp_path_factory.mktemp("cluster") / "etc")
    cluster.configure_node()
    controller = cluster.start()
    try:
        node = cluster.start_node()
        try:
            yield cluster
        finally:
            node.terminate()
            node.wait(PATIENCE_S)
    finally:
        controller.terminate()
        controller.wait(PATIENCE_S)


def _campaign(*args: str) -> str:
    run = CliRunner().invoke(cli, ["campaign", *args])
    assert run.exit_code == 0, run.output
    return run.stdout


def test_slurm_runs_the_workers_of_a_campaign(slurm: Slurm, tmp_path: Path) -> None:
    database = migrated_sqlite(tmp_path)
    (tmp_path / "jobs.toml").write_text(
        '[[workloads]]\nmodel = "zoo/mlp"\nbatch_size = [1, 2, 3]\n'
    )
    name = _campaign(
        "create", str(tmp_path / "jobs.toml"), "--database", database, "--reference", "none",
        "--threads", "1",
    ).strip()  # fmt: skip
    profiles = str(tmp_path / "profiles")
    script = tmp_path / "array.sh"
    script.write_text(
        _campaign(
            "export", "slurm", name, "--database", database, "--workers", "2", "--out", profiles
        )
    )
    command = tmp_path / "perfmodel"
    program = "from perfmodel.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(program)} "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    slurm.run("sbatch", "--parsable", str(script), PATH=path, PYTHONPATH=str(ROOT))
    until(lambda: not slurm.run("squeue", "--noheader").stdout.strip(),
          patience_s=2 * PATIENCE_S, every_s=0.5)  # fmt: skip
    said = [path.read_text() for path in sorted(slurm.folder.glob(f"perfmodel-{name}-*.log"))]
    assert len(said) == 2
    shown = json.loads(_campaign("status", name, "--database", database, "--json"))
    assert (shown["stage"], shown["done"]) == ("ended", 3), said
    assert sorted(step.batch_size for step in ProfileStore(profiles).steps()) == [1, 2, 3]
    tasks = json.loads(_campaign("results", name, "--database", database, "--json"))["tasks"]
    assert [task["attempts"] for task in tasks] == [1, 1, 1]
