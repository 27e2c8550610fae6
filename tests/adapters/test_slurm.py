"""Real jobs submitted to a real Slurm controller; the Lua files are those of the examples."""

from __future__ import annotations

import json
import math
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from adapter_world import FAILURES, raw_server, training
from slurm_packages import Slurm, unpacked
from waiting import PATIENCE_S

from perfmodel.client import Client
from perfmodel.estimator import Estimator
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "slurm"

SMALL = {"job": training("timm/small"), "total_samples": 1e9}


def comment(asked: dict[str, Any] = SMALL) -> str:
    return f"--comment=perfmodel {json.dumps(asked)}"


def post(url: str, asked: dict[str, Any]) -> tuple[int, str]:
    response = httpx.post(f"{url}/v1/adapters/slurm", json=asked, timeout=PATIENCE_S)
    return response.status_code, response.text


def expected_min(estimator: Estimator, placement: str, samples: float = 1e9) -> int:
    """The slow end of the prediction and a fifth, five minutes besides, whole minutes."""
    answer = estimator.estimate(parse_job(training("timm/small")), parse_placement(placement))
    return math.ceil((samples / answer.throughput.low * 1.2 + 300) / 60)


def test_the_route_names_the_fastest_partition(service_url: str, estimator: Estimator) -> None:
    asked = {
        **SMALL,
        "gpus_per_node": 4,
        "nodes": 2,
        "candidates": {"old": "V100-SXM2-16GB", "new": "A100-SXM4-80GB"},
    }
    minutes = expected_min(estimator, "2x(4xA100-SXM4-80GB)")
    assert post(service_url, asked) == (200, f"partition=new\ntime_limit_min={minutes}\n")
    without = {key: value for key, value in asked.items() if key != "total_samples"}
    assert post(service_url, without) == (200, "partition=new\n")


def test_the_route_knows_registered_jobs(service_url: str) -> None:
    with Client(service_url, timeout_s=60.0) as client:
        ref = client.register_job(training("timm/small")).ref
    asked = {"job": ref, "candidates": {"new": "A100-SXM4-80GB"}}
    assert post(service_url, asked) == (200, "partition=new\n")


def test_no_limit_is_set_for_a_job_of_which_nothing_is_known(service_url: str) -> None:
    job = {"job_type": "of which nothing is known", "mode": "training", "batch_size": 8}
    asked = {**SMALL, "job": job, "candidates": {"new": "A100-SXM4-80GB"}}
    assert post(service_url, asked) == (200, "partition=new\n")


def test_the_route_names_none_where_none_fits(service_url: str) -> None:
    huge = {"job": training("timm/huge"), "candidates": {"small": "P4"}}
    assert post(service_url, huge) == (200, "")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"candidates": {}}, "/candidates"),
        ({"candidates": {"a": "nonsense"}}, "/candidates/a"),
        ({"candidates": {"a\nb": "A100"}}, "/candidates"),
        ({"candidates": {"a,b": "A100"}}, "/candidates"),
        ({"nodes": 0}, "/nodes"),
        ({"total_samples": -1}, "/total_samples"),
        ({"more": 1}, "/more"),
        ({"job": {"model": "timm/none", "mode": "training", "batch_size": 1}}, "/job/model"),
    ],
)
def test_the_route_says_what_is_wrong(
    service_url: str, change: dict[str, Any], pointer: str
) -> None:
    # Any status but 200 leaves the job as it is.
    status, content = post(service_url, {**SMALL, "candidates": {"a": "A100"}, **change})
    assert status in (404, 422) and json.loads(content)["errors"][0]["pointer"] == pointer


def test_the_route_names_partitions_without_an_answer(service_url: str) -> None:
    asked = {"job": SMALL["job"], "candidates": {"odd": "nonsense", "new": "A100", "typo": "A1OO"}}
    assert post(service_url, asked) == (200, "partition=new\nunanswered=odd,typo\n")
    asked["candidates"] = {"small": "P4", "odd": "nonsense"}
    assert post(service_url, {**asked, "job": training("timm/huge")}) == (200, "unanswered=odd\n")


@pytest.fixture(scope="module")
def slurm_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("slurm"))


Start = Callable[..., Slurm]


@pytest.fixture(scope="module")
def start(slurm_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    running = []

    def started(plugin: str, url: str) -> Slurm:
        slurm = Slurm(root=slurm_root, folder=tmp_path_factory.mktemp("cluster") / "etc")
        slurm.configure(plugin)
        for file in EXAMPLES.glob("*.lua"):
            shutil.copy(file, slurm.folder)
        running.append(slurm.start(PERFMODEL_URL=url, PERFMODEL_TIMEOUT_S="60"))
        return slurm

    yield started
    for process in running:
        process.terminate()
    for process in running:
        process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def slurm(start: Start, service_url: str) -> Slurm:
    return start("JobSubmitPlugins=lua", service_url)


def test_a_job_lands_in_the_partition_that_runs_it_best(slurm: Slurm, estimator: Estimator) -> None:
    job = slurm.submit(comment(), "--nodes=2")
    assert job["Partition"] == "a100"
    days, _, clock = job["TimeLimit"].rpartition("-")
    hours, minutes, _ = map(int, clock.split(":"))
    limit_min = int(days or 0) * 1440 + hours * 60 + minutes
    assert limit_min == expected_min(estimator, "2x(1xA100-SXM4-80GB)")


def test_the_accelerators_of_a_node_count(slurm: Slurm, estimator: Estimator) -> None:
    # Nodes without a running daemon have no accelerators, so that the job is refused afterwards.
    slurm.run("sbatch", comment(), "--gres=gpu:4", "--wrap", "true", check=False)
    minutes = expected_min(estimator, "4xA100-SXM4-80GB")
    said = (slurm.folder / "slurmctld.log").read_text()
    assert f"perfmodel: partition a100, limit {minutes} min" in said


def test_the_accelerators_of_the_whole_job_are_dealt_out_to_its_nodes(
    slurm: Slurm, estimator: Estimator
) -> None:
    slurm.run("sbatch", comment(), "--nodes=2", "--gpus=8", "--wrap", "true", check=False)
    minutes = expected_min(estimator, "2x(4xA100-SXM4-80GB)")
    said = (slurm.folder / "slurmctld.log").read_text()
    assert f"perfmodel: partition a100, limit {minutes} min" in said


def test_what_a_user_names_is_kept(slurm: Slurm) -> None:
    named = slurm.submit(comment(), "--partition=v100", "--time=7")
    assert (named["Partition"], named["TimeLimit"]) == ("v100", "00:07:00")
    # Of several named partitions the better one is taken.
    assert slurm.submit(comment(), "--partition=cpu,v100")["Partition"] == "v100"
    assert slurm.submit(comment(), "--partition=cpu")["Partition"] == "cpu"


@pytest.mark.parametrize(
    "said",
    [
        "a remark",
        "perfmodel",
        "perfmodel {not JSON}",
        'perfmodel {"job": {"model": "timm/none", "mode": "training", "batch_size": 1}}',
        'perfmodel {"job": "$(touch never)\'; touch never; \'"}',
    ],
)
def test_a_job_that_says_nothing_useful_is_left_alone(slurm: Slurm, said: str) -> None:
    job = slurm.submit(f"--comment={said}")
    assert (job["Partition"], job["TimeLimit"]) == ("cpu", "UNLIMITED")
    assert not list(slurm.folder.glob("never"))


@pytest.mark.parametrize("failure", ["hangs up", "slow", "garbage", "error", "drips"])
def test_slurm_goes_on_without_the_service(start: Start, failure: str, slurm_root: Path) -> None:
    with raw_server(FAILURES[failure]) as url:
        choice = _choose(slurm_root, url)
    assert choice == "nil nil"


def test_the_controller_goes_on_without_the_service(start: Start) -> None:
    with socket.socket() as kept:  # nobody can begin to listen there
        kept.bind(("127.0.0.1", 0))
        silent = start("JobSubmitPlugins=lua", f"http://127.0.0.1:{kept.getsockname()[1]}")
        job = silent.submit(comment())
        assert (job["Partition"], job["TimeLimit"]) == ("cpu", "UNLIMITED")


def test_the_command_line_filter_chooses_the_same(start: Start, service_url: str) -> None:
    slurm = start("CliFilterPlugins=lua", "http://127.0.0.1:9")
    told = {"PERFMODEL_URL": service_url, "PERFMODEL_TIMEOUT_S": "60"}
    job = slurm.submit(comment(), **told)
    assert job["Partition"] == "a100" and job["TimeLimit"] != "UNLIMITED"
    named = slurm.submit(comment(), "--partition=v100", "--time=7", **told)
    assert (named["Partition"], named["TimeLimit"]) == ("v100", "00:07:00")
    alone = slurm.submit(comment(), PERFMODEL_URL="http://127.0.0.1:9")
    assert alone["Partition"] == "cpu"


def _lua(slurm_root: Path, code: str, **environment: str) -> str:
    slurm = Slurm(root=slurm_root, folder=EXAMPLES)
    return slurm.run("lua5.1", "-e", code, **environment).stdout.strip()


def _choose(slurm_root: Path, url: str) -> str:
    code = (
        "local p = dofile('perfmodel.lua')\n"
        f"print(p.choose([[perfmodel {json.dumps(SMALL)}]], nil, 1, 4))"
    )
    answer = _lua(slurm_root, code, PERFMODEL_URL=url, PERFMODEL_TIMEOUT_S="0.3")
    return " ".join(answer.split())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gres:gpu:a100:4", 4), ("gres/gpu=8", 8), ("gpu:2", 2), ("gpu", 1), ("gres:lic:3", 1),
        ("gres:gpu:2,gres:lic:7", 2),
    ],
)  # fmt: skip
def test_accelerators_are_counted(slurm_root: Path, text: str, count: int) -> None:
    assert _lua(slurm_root, f"print(dofile('perfmodel.lua').gpus('{text}'))") == str(count)


def test_an_answer_outside_the_candidates_is_refused(slurm_root: Path) -> None:
    def lie(connection: socket.socket) -> None:
        body = b"partition=root\ntime_limit_min=5\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with raw_server(lie) as url:
        assert _choose(slurm_root, url) == "nil nil"


def test_the_files_compile(slurm_root: Path) -> None:
    for file in EXAMPLES.glob("*.lua"):
        assert _lua(slurm_root, f"print(loadfile('{file}') ~= nil)") == "true"
