"""What 10,000 stored observations of 500 jobs cost: a matrix, single questions, and to be seen.

Two services with one worker each know the same 500 jobs (10 models x 2 modes x 25 forms of input,
each a family of its own), and one of them twenty observations of each. They take turns::

    matrix   300 jobs on 67 placements that were never asked about; aim: at most twice as long
    new      ``POST /v1/predict`` of the jobs in turn on ever-new placements, beside an empty
             FastAPI route; aim: 0.45 of its requests
    counts   seconds from the acknowledgement of an observation until it counts, on both workers of
             a third service over the same database; aim: 2 s

Besides, what calibrating the jobs takes before the first answers about them. The analytical model
answers: what observations add does not depend on the model. Seconds are those of one core of the
servers, medians over the turns, so that other work does not count; shares of the empty route are
of those seconds, beside them those of requests per second, which other work lowers. What compares
observations with answers (``PERFMODEL_DRIFT_POLL_S``) is off: for minutes after 10,000 of them came
it takes a quarter of a core (``PERFMODEL_DRIFT_SHARE``). Some four minutes on two idle cores::

    python benchmarks/stored_observations.py
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator

from _servers import Server, empty, one_of_each_worker, ratio, service
from http_throughput import NETWORKS, PATH, load

#: Times the matrix without observations; share of an empty route; seconds.
MOST_TIMES, LEAST_SHARE, COUNTS_S = 2.0, 0.45, 2.0
JOBS, PLACEMENTS = 300, 67
MODELS = (
    "resnet18", "resnet50", "mobilenetv3_small_100", "efficientnet_b0", "vit_tiny_patch16_224",
    "convnext_tiny", "densenet121", "regnety_008", "deit_small_patch16_224", "mixer_s32_224",
)  # fmt: skip
INPUTS = 25
SETTINGS = {"PERFMODEL_DRIFT_POLL_S": "0"}
ACCELERATORS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-16GB", "T4", "A10", "L4", "MI300X")
#: Where the jobs were observed.
OBSERVED = [f"{count}x{name}" for name in ACCELERATORS[:5] for count in (1, 2, 4, 8)]


def jobs() -> list[dict]:
    """Return 500 jobs: what is stated of the input makes families, and changes no step."""
    return [
        {
            "model": f"timm/{model}",
            "mode": mode,
            "batch_size": 8,
            "input": {"stored_bytes": 100_000 + n},
        }
        for n in range(INPUTS)
        for model in MODELS
        for mode in ("training", "inference")
    ]


def placements() -> Iterator[str]:
    """Return placements, no two of them equal: on other hosts and networks than were observed."""
    return (
        f"{hosts}x({count}x{name})@{network}"
        for hosts in range(2, 1_000)
        for network in NETWORKS
        for count in (1, 2, 3, 4, 5, 6, 7, 8)
        for name in ACCELERATORS
    )


def store(server: Server) -> int:
    """Store what each job reached at twenty placements, half as long again as predicted."""
    asked, count = jobs(), 0
    for start in range(0, len(asked), 100):
        some = asked[start : start + 100]
        matrix = server.ask_json("/v1/matrix", {"jobs": some, "placements": OBSERVED})
        seen = [
            {
                "job": job,
                "placement": place,
                "step_time_s": 1.5 * matrix["step_time_s"][row][column] * (1 + 0.01 * (row % 7)),
            }
            for row, job in enumerate(some)
            for column, place in enumerate(OBSERVED)
        ]
        count += server.ask_json("/v1/observations", {"observations": seen})["accepted"]
    return count


def first_answers(server: Server) -> float:
    """Return what answers on one of each accelerator take where nothing but the jobs is known, s.

    Each job once on each accelerator: what is timed later is placing and correcting.
    """
    alone = {"jobs": jobs()[:JOBS], "placements": list(ACCELERATORS)}
    computed_s = server.cpu_s()
    server.ask_json("/v1/matrix", alone)
    return server.cpu_s() - computed_s


def measure_matrix(known: Server, bare: Server, rounds: int) -> None:
    """Print what a matrix takes with and without observations."""
    asked, new = jobs()[:JOBS], placements()
    took: dict[str, list[tuple[float, float]]] = {"without": [], "observed": []}
    for turn in range(rounds + 1):
        places = list(itertools.islice(new, PLACEMENTS))
        body = json.dumps({"jobs": asked, "placements": places}).encode()
        for name, server in (("without", bare), ("observed", known)):
            computed_s, began = server.cpu_s(), time.perf_counter()
            server.ask("/v1/matrix", body)
            times = server.cpu_s() - computed_s, time.perf_counter() - began
            if turn:
                took[name].append(times)
            else:
                print(f"matrix, {name}, the first: {times[0]:.2f} s of one core")
    cpu = {name: statistics.median(one[0] for one in times) for name, times in took.items()}
    wall = {name: statistics.median(one[1] for one in times) for name, times in took.items()}
    times = cpu["observed"] / cpu["without"]
    print(
        f"matrix {JOBS} x {PLACEMENTS}: without {cpu['without']:.3f} s of one core (until the last "
        f"byte {wall['without']:.3f} s), observed {cpu['observed']:.3f} s ({wall['observed']:.3f} "
        f"s): {times:.1f} times as long ({ratio(times, MOST_TIMES, least=False)})"
    )


def measure_new(known: Server, bare: Server, nothing: Server, rounds: int, seconds: float) -> None:
    """Print the requests per second of ever-new placements beside those of an empty route."""
    asked = jobs()[:JOBS]
    servers = {"empty route": nothing, "without": bare, "observed": known}
    new = {name: _bodies(asked, placements()) for name in servers}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    for turn, (name, server) in itertools.product(range(rounds + 1), servers.items()):
        computed_s = server.cpu_s()
        one = asyncio.run(load(server.port, new[name], seconds, connections=16))
        if one["errors"]:
            raise RuntimeError(f"{one['errors']} of {one['requests']} requests failed")
        if turn:
            rates[name].append(one["requests_per_s"])
            costs[name].append(1e6 * (server.cpu_s() - computed_s) / one["requests"])
    rate = {name: statistics.median(found) for name, found in rates.items()}
    cost = {name: statistics.median(found) for name, found in costs.items()}
    for name in ("without", "observed"):
        share = cost["empty route"] / cost[name]
        print(
            f"new placements, {name}: {share:.2f} of the empty route "
            f"({ratio(share, LEAST_SHARE, least=True)}), {cost[name]:.0f} us of one core for "
            f"{cost['empty route']:.0f}; {rate[name] / rate['empty route']:.2f} of its requests/s"
        )


def _bodies(asked: list[dict], new: Iterator[str]) -> Iterator[bytes]:
    # A hundred beforehand would be asked twice by nobody: none is.
    for job, place in zip(itertools.cycle(asked), new, strict=False):
        yield json.dumps({"job": job, "placement": place}).encode()


def measure_counts(server: Server, rounds: int) -> None:
    """Print how long an observation takes until each worker of a service answers by it."""
    asked, place = jobs(), "3xT4"
    took = []
    for turn in range(rounds):
        job = asked[-1 - turn]
        body = json.dumps({"job": job, "placement": place})
        with one_of_each_worker(server) as connections:
            before = [_ask(one, body) for one in connections]
            observation = {
                "job": job, "placement": place, "step_time_s": 3 * before[0]["step_time_s"],
            }  # fmt: skip
            _ask(connections[0], json.dumps({"observations": [observation]}), "/v1/observations")
            began = time.perf_counter()
            for one in connections:
                while _ask(one, body)["basis"] != "measured":
                    time.sleep(0.01)
                took.append(time.perf_counter() - began)
    worst = max(took)
    print(
        f"an observation counts on {len(connections)} workers after {statistics.median(took):.2f} "
        f"s, at most {worst:.2f} s ({ratio(worst, COUNTS_S, least=False)})"
    )


def _ask(connection: http.client.HTTPConnection, body: str, path: str = PATH) -> dict:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer: dict = json.loads(response.read())
    if response.status >= 300:
        raise RuntimeError(f"{response.status}: {answer}")
    return answer


def main() -> None:
    """Fill one of two services, and measure both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--port", type=int, default=18_730)
    parser.add_argument("--only", choices=("matrix", "new", "counts"))
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as without,
        service(folder, options.port, models="", settings=SETTINGS) as known,
        service(without, options.port + 1, models="", settings=SETTINGS) as bare,
        empty(folder, options.port + 2, PATH) as nothing,
    ):
        print(f"stored {store(known)} observations of {len(jobs())} jobs")
        first_answers(bare)
        took_s = first_answers(known)
        print(f"calibrating {JOBS} jobs that had been predicted: {took_s:.2f} s of one core")
        if options.only in (None, "matrix"):
            measure_matrix(known, bare, options.rounds)
        if options.only in (None, "new"):
            for server, body in itertools.product(
                (known, bare), _bodies(jobs()[:JOBS], iter(["T4"] * JOBS))
            ):
                server.ask(PATH, body)
            measure_new(known, bare, nothing, options.rounds, options.seconds)
        if options.only in (None, "counts"):
            with service(folder, options.port + 3, models="", workers=2) as two:
                measure_counts(two, options.rounds)


if __name__ == "__main__":
    main()
