"""Capture every timm model and a list of transformers configs; print what fails and why.

Each capture runs in a worker process with a time limit. Results are appended to a JSON-lines
file as they come, so a run may be cut into pieces (``--start``, ``--stop``, ``--step``,
``--time-budget``) and continued (``--resume``); ``--summary-only`` prints the table again.

    python benchmarks/capture_coverage.py --step 10
    python benchmarks/capture_coverage.py --resume --time-budget 50
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MODES = ("inference", "training")

#: Model types captured with their default config: the base size of each architecture.
MODEL_TYPES = (
    "albert", "bart", "bert", "big_bird", "bloom", "camembert", "clip", "codegen", "convnext",
    "convnextv2", "cvt", "deberta-v2", "deepseek_v3", "deit", "dinov2", "distilbert", "electra",
    "ernie", "falcon", "focalnet", "gemma", "gemma2", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gptj", "granite", "layoutlm", "llama", "longformer", "mamba", "mamba2", "marian",
    "mbart", "mistral", "mixtral", "mobilebert", "modernbert", "mpnet", "mpt", "mt5", "olmo",
    "olmoe", "opt", "pegasus", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
    "regnet", "resnet", "roberta", "segformer", "siglip", "stablelm", "starcoder2", "swin",
    "swinv2", "t5", "vit", "whisper", "xglm", "xlm-roberta",
)  # fmt: skip

#: The ones that capture is promised for.
PROMISED = (
    "bert", "gpt2", "llama", "qwen2", "qwen3", "t5", "whisper", "vit", "clip", "mixtral", "mamba",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One job to capture."""

    model: str
    mode: str

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a result."""
        return (self.model, self.mode)


def captured(task: Task, batch_size: int) -> dict[str, Any]:
    """Capture one job and return its figures."""
    from perfmodel.capture.torch import capture
    from perfmodel.graph.job import Job
    from perfmodel.types import Mode
    from perfmodel.zoo.resolve import build_bundle, program_of, source_of

    prefix, _, name = task.model.partition("/")
    reference = (
        {"hf_config": {"model_type": name}} if prefix == "hf_config" else {"model": task.model}
    )
    job = Job(mode=Mode(task.mode), batch_size=batch_size, **reference)
    begin = time.perf_counter()
    bundle = build_bundle(job)
    built = time.perf_counter()
    graph = capture(program_of(bundle, job), source=source_of(bundle, job))
    done = time.perf_counter()
    return {
        "build_s": built - begin,
        "capture_s": done - built,
        "nodes": len(graph.nodes),
        "parameters_match": graph.parameter_count == bundle.parameter_count,
        "unpriced": unpriced(graph),
    }


def unpriced(graph: Any) -> dict[str, int]:
    """Count the operators without a cost formula."""
    from perfmodel.graph.cost.base import REGISTER

    return dict(Counter(node.op for node in graph.nodes if node.op not in REGISTER))


def serve(connection: Connection, batch_size: int) -> None:
    """Capture jobs until told to stop; runs in a worker process."""
    import torch

    torch.set_num_threads(1)
    while (task := connection.recv()) is not None:
        try:
            connection.send(captured(task, batch_size))
        except Exception as error:
            connection.send({"error": f"{type(error).__name__}: {error}"[:500]})


class Worker:
    """A worker process that is replaced when it hangs or dies."""

    def __init__(self, batch_size: int, timeout_s: float) -> None:
        self.batch_size = batch_size
        self.timeout_s = timeout_s
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.batch_size), daemon=True)
        self.process.start()
        theirs.close()
        self.is_fresh = True

    def run(self, task: Task) -> dict[str, Any]:
        """Capture one job; the first of a process has 30 s more for its imports."""
        self.connection.send(task)
        limit_s = self.timeout_s + (30 if self.is_fresh else 0)
        self.is_fresh = False
        try:
            if self.connection.poll(limit_s):
                result: dict[str, Any] = self.connection.recv()
                return result
            reason = f"no result in {self.timeout_s:.0f} s"
        except EOFError:
            reason = f"worker died with exit code {self.process.exitcode}"
        self.process.kill()
        self._start()
        return {"error": reason}

    def stop(self) -> None:
        """End the process."""
        self.connection.send(None)
        self.process.join(5)


def all_tasks(kinds: Sequence[str], modes: Sequence[str]) -> list[Task]:
    """List every job of the wanted kinds."""
    from perfmodel.zoo import known_models

    names: list[str] = []
    if "timm" in kinds:
        names += known_models("timm/")
    if "hf_config" in kinds:
        names += [f"hf_config/{model_type}" for model_type in MODEL_TYPES]
    if "zoo" in kinds:
        names += known_models("zoo/")
    return [Task(name, mode) for name in names for mode in modes]


def chosen(tasks: list[Task], args: argparse.Namespace, done: set[tuple[str, str]]) -> list[Task]:
    """Cut the wanted piece out of the list of models, without what is done."""
    models = list(dict.fromkeys(task.model for task in tasks))
    wanted = set(models[args.start : args.stop : args.step])
    if args.only:
        wanted = {model for model in models if any(part in model for part in args.only)}
    return [task for task in tasks if task.model in wanted and task.key not in done]


def results_in(path: Path) -> Iterator[dict[str, Any]]:
    """Read earlier results; the last one of a job counts."""
    if path.exists():
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            result = json.loads(line)
            latest[result["model"], result["mode"]] = result
        yield from latest.values()


def run(tasks: list[Task], args: argparse.Namespace) -> None:
    """Capture the jobs and append their results to the file."""
    worker = Worker(args.batch_size, args.timeout)
    begin = time.perf_counter()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("a") as out:
        for count, task in enumerate(tasks):
            if args.time_budget and time.perf_counter() - begin > args.time_budget:
                print(f"Time budget spent; {len(tasks) - count} jobs are left.")
                break
            result = {"model": task.model, "mode": task.mode, **worker.run(task)}
            out.write(json.dumps(result) + "\n")
            out.flush()
            if "error" in result:
                print(f"FAILED {task.model} {task.mode}: {result['error']}", flush=True)
    worker.stop()


def summarise(results: list[dict[str, Any]]) -> None:
    """Print counts, time quantiles, failures and unpriced operators."""
    for kind in ("timm", "hf_config", "zoo"):
        of_kind = [r for r in results if r["model"].startswith(f"{kind}/")]
        if of_kind:
            print(f"\n{kind}")
            _summarise_kind(of_kind)
    failures = [r for r in results if "error" in r]
    print(f"\n{len(failures)} failures")
    for result in failures:
        print(f"  {result['model']} {result['mode']}: {result['error']}")
    operators: Counter[str] = Counter()
    models: Counter[str] = Counter()
    for result in results:
        operators.update(result.get("unpriced", {}))
        models.update(list(result.get("unpriced", {})))
    print(f"\n{len(operators)} unpriced operators (calls, jobs)")
    for name, calls in operators.most_common(60):
        print(f"  {name}: {calls}, {models[name]}")


def _summarise_kind(results: list[dict[str, Any]]) -> None:
    outcome: dict[str, list[bool]] = {}
    for result in results:
        outcome.setdefault(result["model"], []).append("error" not in result)
    both = sum(all(good) and len(good) == len(MODES) for good in outcome.values())
    print(f"  models captured in both modes: {both} of {len(outcome)} ({both / len(outcome):.1%})")
    for mode in MODES:
        of_mode = [r for r in results if r["mode"] == mode]
        good = [r for r in of_mode if "error" not in r]
        if not good:
            continue
        wrong = sum(not r["parameters_match"] for r in good)
        seconds = sorted(r["build_s"] + r["capture_s"] for r in good)
        print(
            f"  {mode}: {len(good)} of {len(of_mode)}; build and capture median "
            f"{statistics.median(seconds):.3f} s, 90 % {seconds[int(0.9 * len(seconds))]:.3f} s, "
            f"longest {seconds[-1]:.3f} s; parameter counts that differ: {wrong}"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["timm", "hf_config", "zoo"])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--only", nargs="+", help="models whose name contains one of these")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--stop", type=int, default=None)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per capture")
    parser.add_argument("--time-budget", type=float, default=None, help="seconds in all")
    parser.add_argument("--out", type=Path, default=Path("build/capture_coverage.jsonl"))
    parser.add_argument("--resume", action="store_true", help="skip the jobs that have a result")
    parser.add_argument("--summary-only", action="store_true")
    args = parser.parse_args()
    if not args.summary_only:
        done = {(r["model"], r["mode"]) for r in results_in(args.out)} if args.resume else set()
        run(chosen(all_tasks(args.kinds, args.modes), args, done), args)
    summarise(list(results_in(args.out)))


if __name__ == "__main__":
    main()
