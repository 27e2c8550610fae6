"""New timm jobs a minute that the service captures, embeds and answers over HTTP.

Callers register jobs that the service has never seen (``POST /v1/jobs``) and ask each for one
answer. Each worker captures in a child process of its own. Two kinds of load::

    models     every job is another model
    batches    four batch sizes of every model, as users ask for them

What is learned of a graph is worked out once, when its job is first answered: it is timed by
itself, in this process, on one core. Run it with nothing else on the machine::

    python benchmarks/new_jobs.py --jobs 120
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from _servers import Server, ratio, service

JOBS_PER_MINUTE = 500.0
EMBED_S = 0.1
BATCH_SIZES = (16, 32, 64, 128)


def names(most: int) -> list[str]:
    """Return timm models spread evenly over all."""
    from perfmodel.zoo.timm import timm_names

    every = [name for name in timm_names() if "." not in name]
    return every[:: max(1, len(every) // most)][:most]


def jobs(kind: str, count: int) -> list[dict]:
    """Return so many jobs."""
    sizes = (32,) if kind == "models" else BATCH_SIZES
    models = names(-(-count // len(sizes)))
    modes = itertools.cycle(("training", "training", "inference"))
    found = [
        {"model": f"timm/{name}", "mode": mode, "batch_size": size}
        for name, mode in zip(models, modes, strict=False)
        for size in sizes
    ]
    return found[:count]


def take(server: Server, job: dict) -> tuple[float, bool]:
    """Register a job and ask for one answer; returns the seconds, and whether it was answered."""
    began = time.perf_counter()
    try:
        server.ask_json("/v1/jobs", {"job": job})
        server.ask_json("/v1/predict", {"job": job, "placement": "8xA100-SXM4-80GB"})
    except OSError:
        return time.perf_counter() - began, False
    return time.perf_counter() - began, True


def measure(server: Server, kind: str, asked: list[dict], callers: int) -> float:
    """Send the jobs of some callers; returns jobs a minute."""
    computed_s, began = server.cpu_s(), time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        taken = list(pool.map(lambda job: take(server, job), asked))
    minutes = (time.perf_counter() - began) / 60
    computed_s = server.cpu_s() - computed_s
    good = sum(answered for _, answered in taken)
    rate = good / minutes
    print(
        f"{kind:8} {good} of {len(asked)} jobs answered, {rate:.0f} a minute "
        f"({ratio(rate, JOBS_PER_MINUTE, least=True)}); median of one "
        f"{statistics.median(s for s, _ in taken):.2f} s, {computed_s / len(asked):.3f} s of one "
        f"core each, so {120 * len(asked) / computed_s:.0f} a minute if two cores did nothing else"
    )
    return rate


def embedding_s(models: str, asked: list[dict]) -> list[float]:
    """Return the CPU seconds to predict each captured job for the first time."""
    from perfmodel.estimator import Estimator
    from perfmodel.estimator.tables.estimates import answer_cell
    from perfmodel.placement.topology.parse import parse_placement
    from perfmodel.requests import parse_job

    estimator = Estimator.from_folder(models)
    found = []
    for job in asked:
        prepared = estimator.core.prepare(parse_job(job))
        placement = estimator.core.resolve(parse_placement("A100-SXM4-80GB"))
        began = time.process_time()
        answer_cell(estimator.core, prepared, placement)
        found.append(time.process_time() - began)
    return found[1:]  # the first one loads what is loaded when it is needed


def main() -> None:
    """Measure both kinds of load, then the embedding alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--embedded", type=int, default=20)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_740)
    options = parser.parse_args()
    for kind in ("models", "batches"):
        with (
            tempfile.TemporaryDirectory() as folder,
            service(folder, options.port, models=options.models, workers=options.workers) as server,
        ):
            # Each capturing process loads its libraries with its first job.
            measure(server, "first", jobs("models", 4 * options.workers), options.callers)
            measure(server, kind, jobs(kind, options.jobs), options.callers)
    seconds = embedding_s(options.models, jobs("models", options.embedded + 1))
    median_s = statistics.median(seconds)
    print(
        f"embedding: median {1e3 * median_s:.0f} ms, longest {1e3 * max(seconds):.0f} ms of one "
        f"core ({ratio(median_s, EMBED_S, least=False)})"
    )


if __name__ == "__main__":
    main()
