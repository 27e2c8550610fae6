"""A real Slurm from Debian's packages, unpacked beside the system: a controller, and a node."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from free_ports import free_port
from waiting import PATIENCE_S

#: A folder with the unpacked packages; without it they are fetched.
FOLDER = "PERFMODEL_SLURM_ROOT"

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "libmunge2", "liblua5.1-0",
    "lua5.1",
    "libhwloc15", "libjson-c5", "libyaml-0-2", "libdbus-1-3", "libnuma1", "liblz4-1",
    "libreadline8", "munge",
)  # fmt: skip

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_PLUGINS = f"{_LIBRARIES}/slurm-wlm"

_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldPort={port}
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/pgid
MessageTimeout=100
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName=n[1-6] CPUs=4 Gres=gpu:4 NodeAddr=127.0.0.1 State=UNKNOWN
PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=v100 Nodes=n[3-4] MaxTime=INFINITE State=UP
PartitionName=a100 Nodes=n[5-6] MaxTime=INFINITE State=UP
{plugin}
"""


def unpacked(folder: Path) -> Path:
    """Return a folder with Slurm in it, or skip with the reason."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("Slurm comes from Debian's packages, and this is no Debian")
    fetched, root = folder / "packages", folder / "root"
    fetched.mkdir()
    try:
        subprocess.run(
            ["apt-get", "download", "-q", *PACKAGES],
            cwd=fetched, capture_output=True, text=True, check=True, timeout=240,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Slurm's packages cannot be fetched here: {str(error.stderr).strip()[-200:]}")
    for package in fetched.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True, timeout=240)
    return root


@dataclass(kw_only=True)
class Slurm:
    """A controller and its commands.

    Parameters
    ----------
    root, folder : Path
        Packages; configuration and state.
    """

    root: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What every process of it needs."""
        libraries = [self.root / _LIBRARIES, self.root / "lib/x86_64-linux-gnu", self.plugins]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    @property
    def plugins(self) -> Path:
        """Folder of the plugins."""
        return self.root / _PLUGINS

    def configure(self, plugin: str) -> None:
        """Write slurm.conf with one more line."""
        (self.folder / "state").mkdir(parents=True)
        port = free_port()
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        conf = _CONF.format(
            host=socket.gethostname(), user=user.stdout.strip(), plugins=self.plugins,
            folder=self.folder, port=port, plugin=plugin,
        )  # fmt: skip
        (self.folder / "slurm.conf").write_text(conf)

    def configure_node(self) -> None:
        """Write a configuration in which this machine is the one node that runs jobs."""
        self.configure("")
        conf = self.folder / "slurm.conf"
        port = free_port()
        kept = [
            line
            for line in conf.read_text().splitlines()
            if not line.startswith(("NodeName", "PartitionName", "GresTypes"))
        ]
        here = socket.gethostname()
        conf.write_text(
            "\n".join(kept) + f"\nSlurmdPort={port}\nSlurmdPidFile={self.folder}/slurmd.pid\n"
            f"SlurmdLogFile={self.folder}/slurmd.log\nSelectTypeParameters=CR_CPU\n"
            f"JobAcctGatherType=jobacct_gather/none\n"
            f"NodeName={here} CPUs={os.cpu_count()} NodeAddr=127.0.0.1 State=UNKNOWN\n"
            f"PartitionName=all Nodes={here} Default=YES MaxTime=INFINITE State=UP\n"
        )
        # Of a folder of its own: the groups of the system are not to be touched.
        (self.folder / "cgroup.conf").write_text(
            f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={self.folder}/cgroup\n"
        )

    def start_node(self) -> subprocess.Popen[bytes]:
        """Start the daemon of the node and wait until jobs can run on it."""
        sbin = self.root / "usr/sbin"
        process = subprocess.Popen(
            [sbin / "slurmd-wlm", "-D", "-f", self.folder / "slurm.conf",
             "-d", sbin / "slurmstepd-wlm"],
            env=self.environment, cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + PATIENCE_S
        while "idle" not in self.run("sinfo", "--noheader", "--format=%T").stdout:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                pytest.skip(f"slurmd does not run: {(self.folder / 'slurmd.log').read_text()}")
            time.sleep(0.1)
        return process

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start the controller and wait until it answers."""
        process = subprocess.Popen(
            [self.root / "usr/sbin/slurmctld-wlm", "-D", "-f", self.folder / "slurm.conf"],
            env=self.environment | environment, cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + PATIENCE_S
        while self.run("scontrol", "ping", check=False).returncode:
            assert process.poll() is None, (self.folder / "slurmctld.log").read_text()
            if time.monotonic() > until:
                process.kill()
                raise AssertionError("the controller does not answer")
            time.sleep(0.1)
        return process

    def run(
        self, command: str, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands."""
        return subprocess.run(
            [self.root / "usr/bin" / command, *arguments],
            env=self.environment | environment,
            cwd=self.folder, capture_output=True, text=True, check=check, timeout=240,
        )  # fmt: skip

    def submit(self, *options: str, **environment: str) -> dict[str, str]:
        """Submit a job and return what the controller made of it."""
        run = self.run("sbatch", "--parsable", *options, "--wrap", "true", **environment)
        shown = self.run("scontrol", "show", "job", "-o", run.stdout.strip().split(";")[0]).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)
