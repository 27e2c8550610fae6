"""Build both images and run them, on a machine without a container engine.

    sudo apt-get install buildah mmdebstrap
    make image-check                              # some minutes; prints sizes and times
    make image-check ARGS='--target small'

`buildah` builds with chroot isolation. The base is made of Debian's packages by `mmdebstrap` and
stands in for the registry's; `--base python:3.11-slim` takes that one where it can be pulled.
Wheels are fetched by the pip of this machine, with its settings. What was built runs in
namespaces of its own, as its own user, on a root that it cannot write. It exits with 1 where
anything is not as it should be, and with 2 where this machine cannot do it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "image"
STAND_IN = "localhost/python:3.11-slim"
#: Most bytes of each image, with its base.
MOST_BYTES = {"small": 400_000_000, "full": 2_000_000_000}
USER = 10001
#: Longer than a start or an answer takes, however busy the machine is, seconds.
PATIENCE_S = 300.0
_MINBASE = ("--variant=minbase", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
_LEAN = tuple(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale"))
_INCLUDE = "--include=ca-certificates,media-types,usr-is-merged,python3-venv"
#: A model that many ask for, and one that nobody does.
_QUESTION = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "placement": "8xA100-SXM4-80GB",
}
_ODD_QUESTION = {
    "job": {
        "model": "timm/resnet26",
        "model_kwargs": {"num_classes": 123},
        "mode": "training",
        "batch_size": 8,
    },
    "placement": "T4",
}


class FailedError(Exception):
    """Something of an image is not as it should be."""


@dataclass
class Report:
    """What was found out of one image.

    Parameters
    ----------
    facts : dict
        Figures by their name.
    """

    target: str
    facts: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, value: str) -> None:
        """Keep a figure and show it."""
        self.facts[name] = value
        print(f"{self.target}: {name}: {value}", flush=True)


def buildah(*arguments: str) -> str:
    """Run buildah on a store of its own and return what it prints."""
    places = ("--root", str(WORK / "store"), "--runroot", str(WORK / "run"))
    return _run("buildah", "--storage-driver", "vfs", *places, *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise FailedError(f"{' '.join(command[:12])} ... failed with {done.returncode}:\n{said}")
    return done.stdout


def missing() -> list[str]:
    """Return what this machine lacks."""
    tools = ("buildah", "mmdebstrap", "unshare", "setpriv", "chroot")
    found = [f"the program {name}" for name in tools if shutil.which(name) is None]
    if os.geteuid():
        return [*found, "root: images are unpacked with their owners, and mounted"]
    trial = ("unshare", "--mount", "--pid", "--fork", "true")
    if not found and subprocess.run(trial, capture_output=True, check=False).returncode:
        found.append("namespaces: `unshare --mount --pid` is not permitted here")
    return found


def make_base() -> None:
    """Make what stands in for the registry's image of Python, unless it is there."""
    if STAND_IN in buildah("images", "--format", "{{.Name}}:{{.Tag}}"):
        return
    tarball = WORK / "base.tar"
    _run("mmdebstrap", *_MINBASE, *_LEAN, _INCLUDE, "bookworm", str(tarball))
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, str(tarball), "/")
    path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    buildah("config", "--env", path, container)
    buildah("commit", "--quiet", "--rm", container, STAND_IN)
    tarball.unlink()


def extras_of(target: str) -> str:
    """Return what the Dockerfile installs in an image."""
    text = (ROOT / "Dockerfile").read_text()
    found = re.search(rf"AS build-{target}\nRUN sh deploy/build-image.sh (\S+)", text)
    if found is None:
        raise FailedError(f"The Dockerfile has no stage build-{target}.")
    return found.group(1)


def fetch_wheels(extras: Sequence[str]) -> Path:
    """Fetch what the images install with the pip of this machine."""
    folder = WORK / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder),
        "--constraint", "constraints.txt", "setuptools>=77", f".[{','.join(extras)}]",
    )  # fmt: skip
    return folder


def build(targets: Sequence[str], base: str | None) -> None:
    """Build targets of the Dockerfile.

    Parameters
    ----------
    base : str or None
        Image of Python; None: what stands in for it.
    """
    if base is None:
        make_base()
    wheels = fetch_wheels([extras_of(target) for target in targets])
    for target in targets:
        started = time.monotonic()
        buildah(
            "build-using-dockerfile", "--isolation", "chroot", "--format", "docker",
            "--layers=false", "--target", target, "--tag", _name_of(target),
            "--build-arg", f"BASE={base or STAND_IN}",
            "--build-arg", "PIP_NO_INDEX=1", "--build-arg", "PIP_FIND_LINKS=/wheels",
            "--volume", f"{wheels}:/wheels:ro", ".",
        )  # fmt: skip
        print(f"{target}: build: {time.monotonic() - started:.0f} s", flush=True)


def _name_of(target: str) -> str:
    return f"localhost/perfmodel:{target}"


@dataclass(frozen=True)
class Image:
    """An image that was unpacked.

    Parameters
    ----------
    root : Path
        Where its files are.
    config : mapping
        What it says about how it is run, in the form of Docker.
    """

    root: Path
    config: Mapping[str, Any]

    def command(self, *arguments: str) -> list[str]:
        """Return what the container runs: its entry point, and arguments or its own."""
        return [*self.config["Entrypoint"], *(arguments or self.config["Cmd"])]


@contextlib.contextmanager
def unpacked(name: str) -> Iterator[Image]:
    """Unpack an image."""
    container = buildah("from", "--pull-never", name).strip()
    try:
        described = json.loads(buildah("inspect", container))
        root = Path(buildah("mount", container).strip())
        yield Image(root=root, config=described["Docker"]["config"])
    finally:
        buildah("rm", container)


_START = """
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount --bind "$2" "$1/var/lib/perfmodel"
mount -o remount,bind,ro "$1"
root=$1
shift 2
exec setpriv --no-new-privs chroot --userspec={user}:{user} --groups= "$root" "$@"
"""


def in_container(image: Image, state: Path, command: Sequence[str], **stated: str) -> list[str]:
    """Return the command that runs another in the container: its user, variables and folders."""
    variables = dict(entry.split("=", 1) for entry in image.config["Env"]) | stated
    inner = ["env", "-i", f"--chdir={image.config['WorkingDir']}"]
    inner += [f"{name}={value}" for name, value in variables.items()]
    return [
        "unshare", "--mount", "--pid", "--fork", "--kill-child",
        "sh", "-c", _START.format(user=USER), "sh", str(image.root), str(state), *inner, *command,
    ]  # fmt: skip


def check_config(image: Image, report: Report) -> None:
    """Check what the image says of itself, and what must not be in it."""
    user = image.config["User"].split(":")[0]
    if user != str(USER):
        raise FailedError(f"The image runs as {user or 'root'}, not as {USER}.")
    for name in ("gcc", "cc", "pip"):
        if any(
            (image.root / folder / name).exists() for folder in ("usr/bin", "opt/perfmodel/bin")
        ):
            raise FailedError(f"The image holds {name}.")
    if list(image.root.glob("opt/perfmodel/lib/*/site-packages/nvidia*")):
        raise FailedError("The image holds NVIDIA packages.")
    report.note("user", user)


def ask(url: str, body: Any = None, key: str = "") -> tuple[int, Any]:
    """Return status and JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    try:
        with urlopen(Request(url, data, headers), timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_until_ready(
    process: subprocess.Popen[bytes], url: str, report: Report, log: Path
) -> None:
    """Wait until it answers; the full image has to answer with all that it has."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise FailedError(f"It ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        with contextlib.suppress(URLError, OSError):
            status, answer = ask(f"{url}/v2/health/ready")
            if status == 200 and report.target == "full" and answer["status"] != "ready":
                raise FailedError(f"It is {answer}.")
            if status == 200:
                return
        time.sleep(0.05)
    raise FailedError(f"It was not ready after {PATIENCE_S:.0f} s:\n{log.read_text()[-3000:]}")


def check_run(image: Image, report: Report, state: Path) -> None:
    """Start the container, ask it, stop it."""
    port, health_port = _free_ports()
    ports = {"PERFMODEL_LISTEN_PORT": str(port), "PERFMODEL_HEALTH_PORT": str(health_port)}
    serve = in_container(image, state, image.command(), **ports)
    refused = subprocess.run(serve, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if refused.returncode != 2 or "key" not in refused.stderr:
        raise FailedError(f"Without a key it should not listen for everybody: {refused}")
    create = image.command("keys", "create", "check", "--scope", "admin")
    key = _run(*in_container(image, state, create)).strip()
    log = state.parent / f"{report.target}.log"
    with log.open("wb") as written:
        started = time.monotonic()
        process = subprocess.Popen(serve, stdout=written, stderr=written)
        try:
            for each in (health_port, port):
                _wait_until_ready(process, f"http://127.0.0.1:{each}", report, log)
            report.note("ready after", f"{time.monotonic() - started:.1f} s")
            _check_process(process, report)
            _check_answers(f"http://127.0.0.1:{port}", key, log, report)
            probe = in_container(image, state, image.config["Healthcheck"]["Test"][1:])
            _run(*[part.replace(":8001/", f":{health_port}/") for part in probe])
            _check_end(process, report)
        finally:
            _kill(process)


def _inner(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return int(children.split()[0])


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill what runs in the container; its first process takes the others along."""
    # The wish to be killed with its parent is lost when a process changes its user.
    with contextlib.suppress(IndexError, OSError):
        os.kill(_inner(process), signal.SIGKILL)
    process.kill()
    process.wait()


def _check_process(process: subprocess.Popen[bytes], report: Report) -> None:
    """Check who it runs as, and that it cannot write its root."""
    proc = Path(f"/proc/{_inner(process)}")
    status = dict(
        line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line
    )
    if set(status["Uid"].split()) != {str(USER)} or int(status["CapEff"], 16):
        raise FailedError(f"It runs as {status['Uid']} with capabilities {status['CapEff']}.")
    roots = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    if not any(fields[4] == "/" and "ro" in fields[5].split(",") for fields in roots):
        raise FailedError("Its root can be written.")
    report.note("resident", f"{int(status['VmRSS'].split()[0]) / 1024:.0f} MiB")


def _check_answers(url: str, key: str, log: Path, report: Report) -> None:
    if ask(f"{url}/v1/predict", _QUESTION)[0] != 401:
        raise FailedError("It answers without a key.")
    _check_graph(url, key)
    _check_capture(url, key, report)
    started = time.monotonic()
    status, answer = ask(f"{url}/v1/predict", _QUESTION, key)
    if status != 200:
        raise FailedError(f"A named model is answered {status}: {answer}")
    speed = answer["throughput"]["samples_per_second"]
    if not 100 < speed < 100_000:
        raise FailedError(f"ResNet-50 on 8 A100 at {speed} samples a second.")
    if answer["basis"] in ("analytical", "default"):
        raise FailedError(f"A named model is answered by no trained predictor: {answer}")
    took = time.monotonic() - started
    report.note("named model", f"{answer['basis']}, {speed:.0f} samples/s, after {took:.1f} s")
    if report.target == "small" and "PyTorch is not installed" not in log.read_text():
        raise FailedError("The log does not say what it cannot do.")


def _check_capture(url: str, key: str, report: Report) -> None:
    """Check that a model whose graph nobody has is captured, or refused for want of PyTorch."""
    started = time.monotonic()
    status, answer = ask(f"{url}/v1/predict", _ODD_QUESTION, key)
    if status != {"small": 501, "full": 200}[report.target]:
        raise FailedError(f"A model that has to be captured is answered {status}: {answer}")
    report.note("other model", f"{status}, after {time.monotonic() - started:.1f} s")


def _check_graph(url: str, key: str) -> None:
    from service.routes.graphs import GRAPH_EXAMPLE

    graph = {**GRAPH_EXAMPLE, "source": {"mode": "training", "batch_size": "8"}}
    status, kept = ask(f"{url}/v1/graphs", graph, key)
    job = {"model": {"graph": kept.get("graph")}, "mode": "training", "batch_size": 8}
    asked, answer = ask(f"{url}/v1/predict", {"job": job, "placement": "T4"}, key)
    if (status, asked) != (201, 200):
        raise FailedError(f"A registered graph is answered {status}, {asked}: {kept} {answer}")


def _check_end(process: subprocess.Popen[bytes], report: Report) -> None:
    started = time.monotonic()
    os.kill(_inner(process), signal.SIGTERM)
    code = process.wait(timeout=PATIENCE_S)
    if code not in (0, 128 + signal.SIGTERM):
        raise FailedError(f"After SIGTERM it ended with {code}.")
    report.note("SIGTERM", f"exit code {code} after {time.monotonic() - started:.1f} s")


def check(target: str) -> Report:
    """Run an image that was built, and look at it."""
    report = Report(target)
    with unpacked(_name_of(target)) as image, tempfile.TemporaryDirectory() as folder:
        taken = int(_run("du", "--summarize", "--bytes", str(image.root)).split()[0])
        report.note("size", f"{taken / 1e6:.0f} MB of {MOST_BYTES[target] / 1e6:.0f} at most")
        check_config(image, report)
        state = Path(folder) / "state"
        state.mkdir()
        os.chown(state, USER, USER)
        Path(folder).chmod(0o755)
        check_run(image, report, state)
        if taken > MOST_BYTES[target]:
            raise FailedError(f"The image {target} takes {taken / 1e6:.0f} MB.")
    return report


def main() -> int:
    """Check the images that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=tuple(MOST_BYTES), action="append")
    parser.add_argument("--no-build", action="store_true", help="run what was built before")
    parser.add_argument("--base", help="image of Python to build on; default: made here")
    stated = parser.parse_args()
    if lacking := missing():
        print("This machine cannot build and run images. It lacks:", *lacking, sep="\n  ")
        print("On Debian: apt-get install buildah mmdebstrap; then as root: make image-check")
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    targets = stated.target or list(MOST_BYTES)
    try:
        if not stated.no_build:
            build(targets, stated.base)
        reports = [check(target) for target in targets]
    except FailedError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print(json.dumps({report.target: report.facts for report in reports}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
