"""Latency of an extender's ``prioritize`` with 100 nodes beside an empty FastAPI route, in one run.

Requests arrive at a constant rate whatever becomes of the earlier ones, as pods do; a latency
counts from the moment at which a request was due, so that waiting behind a slow one counts too. The
service knows the nodes and the jobs: the pods of a job arrive after its first. Run it with nothing
else on the machine::

    python benchmarks/extender.py --rate 300 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time

from _servers import Server, empty, ratio, service

PRODUCTS = (
    "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-40GB",
    "Tesla-V100-SXM2-16GB", "NVIDIA-A10", "NVIDIA-L4", "Tesla-T4", "NVIDIA-L40S",
)  # fmt: skip
PATH = "/kubernetes/scheduler/prioritize"
#: What the 99th percentile of prioritize may be, milliseconds.
MOST_P99_MS = 10.0


def node(number: int) -> dict:
    """Return a v1.Node of about the size that API servers write: 60 labels, 40 images."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FLAG{i}": "true" for i in range(60)}
    images = [
        {"names": [f"registry.example/image-{i}@sha256:{i:064d}"], "sizeBytes": 10**9 + i}
        for i in range(40)
    ]
    product = PRODUCTS[number % len(PRODUCTS)]
    return {
        "metadata": {
            "name": f"node-{number}",
            "labels": {**labels, "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"},
        },
        "status": {"images": images, "allocatable": {"nvidia.com/gpu": "8"}},
    }


def pod(number: int, batch_size: int) -> dict:
    """Return a pod of a job."""
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": batch_size}
    environment = [{"name": f"VARIABLE_{i}", "value": "x" * 40} for i in range(30)]
    return {
        "metadata": {"name": f"pod-{number}", "annotations": {"perfmodel/job": json.dumps(job)}},
        "spec": {
            "containers": [{"env": environment, "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
        },
    }


def bodies(nodes: list[dict], *, names_only: bool, jobs: int) -> list[bytes]:
    """Return requests for pods of some jobs in turn."""
    names = [item["metadata"]["name"] for item in nodes]
    listed = None if names_only else {"metadata": {}, "items": nodes}
    return [
        json.dumps(
            {
                "Pod": pod(number, 8 + number % jobs),
                "Nodes": listed,
                "NodeNames": names if names_only else None,
            }
        ).encode()
        for number in range(jobs)
    ]


class Connection(asyncio.Protocol):
    """Sends what is due, one request at a time."""

    def __init__(self, free: asyncio.Queue) -> None:
        self._free = free
        self._buffer = b""
        self.answered: asyncio.Future | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Offer itself."""
        self._transport = transport
        self._free.put_nowait(self)

    async def ask(self, body: bytes) -> bool:
        """Send one request; returns whether it was answered well."""
        self.answered = asyncio.get_running_loop().create_future()
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._transport.write(
            head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        well = await self.answered
        self._free.put_nowait(self)
        return well

    def data_received(self, data: bytes) -> None:
        """Note a whole answer."""
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator or self.answered is None:
            return
        (length,) = (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        if len(rest) >= length:
            self._buffer = b""
            self.answered.set_result(head.startswith(b"HTTP/1.1 200"))


async def arrive(port: int, requests: list[bytes], rate: float, seconds: float) -> dict:
    """Send at a constant rate; returns latencies from when each request was due."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for _ in range(32):
        await loop.create_connection(lambda: Connection(free), "127.0.0.1", port)
    latencies_s: list[float] = []
    bad = 0

    async def one(body: bytes, due: float) -> None:
        nonlocal bad
        bad += not await (await free.get()).ask(body)
        latencies_s.append(time.perf_counter() - due)

    start = time.perf_counter()
    tasks = []
    for number, body in zip(range(int(rate * seconds)), itertools.cycle(requests), strict=False):
        due = start + number / rate
        while (early_s := due - time.perf_counter()) > 0:
            await asyncio.sleep(early_s)
        tasks.append(loop.create_task(one(body, due)))
    await asyncio.gather(*tasks)
    latencies_s.sort()
    return {
        "p50_ms": 1e3 * latencies_s[len(latencies_s) // 2],
        "p99_ms": 1e3 * latencies_s[int(len(latencies_s) * 0.99)],
        "requests_per_s": len(latencies_s) / (time.perf_counter() - start),
        "errors": bad,
    }


def warm(server: Server, requests: list[bytes]) -> list[dict]:
    """Ask each request once; returns the last answer."""
    for body in requests:
        answer = json.loads(server.ask(PATH, body))
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_720)
    options = parser.parse_args()
    nodes = [node(number) for number in range(options.nodes)]
    names = bodies(nodes, names_only=True, jobs=options.jobs)
    whole = bodies(nodes, names_only=False, jobs=options.jobs)
    patient = {"PERFMODEL_KUBERNETES_WAIT_S": "60"}
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder, options.port, models=options.models, settings=patient) as answering,
        empty(folder, options.port + 1, PATH) as bare,
    ):
        answer = warm(answering, whole)
        assert len({item["Score"] for item in answer}) > 1, "the service predicts nothing"
        print(f"bodies: names {len(names[0]):,} bytes, nodes {len(whole[0]):,} bytes")
        cases = (
            ("empty, names", bare, names, options.rate),
            ("names", answering, names, options.rate),
            ("empty, nodes", bare, whole, options.rate / 10),
            ("nodes", answering, whole, options.rate / 10),
        )
        late: dict[str, float] = {}
        for turn, (name, server, requests, rate) in itertools.product(range(options.rounds), cases):
            found = asyncio.run(arrive(server.port, requests, rate, options.seconds))
            late[name] = min(late.get(name, float("inf")), found["p99_ms"])
            print(
                f"round {turn + 1} {name:13} {rate:4.0f}/s  p50 {found['p50_ms']:6.2f} ms  "
                f"p99 {found['p99_ms']:6.2f} ms  {found['errors']} errors"
            )
        print(f"names: p99 {ratio(late['names'], MOST_P99_MS, least=False)}")


if __name__ == "__main__":
    main()
