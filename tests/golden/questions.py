"""Questions of every kind, and their answers as plain JSON values.

{captured, language model, job type} x {nothing observed, own steps on one accelerator, own steps on
several, steps of other jobs} x placements of every kind x every verb.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from perfmodel.errors import PerfModelError
from perfmodel.estimator import Estimator, basis_names
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.ranking import Criterion, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Network
from perfmodel.requests import parse_job, parse_observations

JOBS: Mapping[str, Job] = {
    name: parse_job(written)
    for name, written in {
        "cnn": {
            "model": "zoo/resnet18-cifar", "mode": "training", "batch_size": 64,
            "precision": "amp_fp16", "optimizer": "momentum",
            "adaptation": {
                "gradient_noise_scale": 900.0, "initial_batch_size": 128,
                "batch_size_bounds": [128, 8192],
            },
        },
        "serving": {"model": "zoo/resnet18-cifar", "mode": "inference", "batch_size": 32},
        "language model": {
            "model": "zoo/gpt2", "model_kwargs": {"num_layers": 4}, "mode": "training",
            "batch_size": 4, "accumulation_steps": 2, "sequence_length": 512,
            "precision": "amp_bf16", "optimizer": "adamw",
        },
        "language model, fp32": {
            "model": "zoo/gpt2", "model_kwargs": {"num_layers": 4}, "mode": "training",
            "batch_size": 4, "sequence_length": 512, "optimizer": "adamw",
        },
        "job type": {
            "job_type": "mystery", "mode": "training", "batch_size": 32,
            "input": {"stored_bytes": 110000, "cpu_s": 0.006},
            "adaptation": {
                "gradient_noise_scale": 900.0, "initial_batch_size": 64,
                "batch_size_bounds": [64, 4096],
            },
        },
        "published job type": {
            "job_type": "ResNet-18 (batch size 64)", "mode": "training", "batch_size": 64,
        },
    }.items()
}  # fmt: skip

PLACEMENTS: tuple[Any, ...] = (
    "A100-SXM4-80GB",
    "8xA100-SXM4-80GB",
    "2x(8xA100-SXM4-80GB)@ib-200g",
    "(2+1)xA100-SXM4-80GB@eth-25g",
    "8xA100-SXM4-80GB zero=2",
    "8xA100-SXM4-80GB zero=3",
    "8xA100-SXM4-80GB tp=2 pp=2",
    "4xA100-SXM4-80GB pp=4",
    "A100-SXM4-80GB power=250",
    "4xV100-SXM2-16GB+2xT4",
    {"nodes": [{"accelerator": "V100-SXM2-16GB", "count": 2}, {"accelerator": "T4"}],
     "plan": {"batch_split": "proportional"}},
    "A100-SXM4-40GB/3g.20gb",
    "2xA100-SXM4-80GB fraction=0.5",
    {"nodes": [{"accelerator": "A100-SXM4-80GB"}],
     "shared_with": [{"model": "zoo/resnet18-cifar", "mode": "training", "batch_size": 128}]},
    {"nodes": [{"accelerator": "V100-SXM2-16GB"}], "shared_with": ["LM (batch size 20)"]},
    {"nodes": [{"accelerator": "A100-SXM4-80GB", "count": 8}], "cpu_cores": 2,
     "storage_bytes_per_s": 2e8},
    "K80",
    "4xMI300X",
    "EPYC-7742 cores=16",
    "16xTPU-v5e",
)  # fmt: skip


def _seen(*steps: tuple[str, int, float, float | None], job: Any = None) -> list[dict[str, Any]]:
    found = []
    for placement, batch_size, step_time_s, sync_time_s in steps:
        one: dict[str, Any] = {
            "placement": placement, "batch_size": batch_size, "step_time_s": step_time_s,
        }  # fmt: skip
        one |= {"sync_time_s": sync_time_s} if sync_time_s is not None else {}
        found.append(one | ({"job": job} if job is not None else {}))
    return found


_ONE = {"cnn": 0.021, "serving": 0.004, "language model": 0.06, "language model, fp32": 0.09}
_OTHERS = [
    *_seen(
        ("A100-SXM4-80GB", 64, 0.09, None),
        ("8xA100-SXM4-80GB", 64, 0.12, 0.03),
        ("V100-SXM2-16GB", 64, 0.14, None),
        job={"job_type": "elsewhere", "mode": "training", "batch_size": 64},
    ),
    *_seen(
        ("A100-SXM4-80GB", 256, 0.004, None),
        ("8xA100-SXM4-80GB", 256, 0.012, None),
        ("T4", 256, 0.009, None),
        job={"model": "zoo/mlp", "mode": "training", "batch_size": 256},
    ),
]


def observations(kind: str, name: str) -> tuple[Observation, ...]:
    """Return what was observed beside a question about one of the jobs."""
    job = JOBS[name]
    own, batch = _ONE.get(name, 0.11), job.batch_size
    micro_batches = {"accumulation_steps": job.accumulation_steps}
    written = {
        "nothing": [],
        "one": _seen(
            ("A100-SXM4-80GB", batch, own, None),
            ("A100-SXM4-80GB", 2 * batch, 1.9 * own, None),
        ),
        "eight": _seen(
            ("A100-SXM4-80GB", batch, own, None),
            ("8xA100-SXM4-80GB", batch, 1.3 * own, 0.3 * own),
            ("V100-SXM2-16GB", batch, 1.8 * own, None),
        ),
        "others": _OTHERS,
    }[kind]  # fmt: skip
    own_kind = kind in ("one", "eight") and job.job_type is None
    return parse_observations([one | (micro_batches if own_kind else {}) for one in written])


KINDS = ("nothing", "one", "eight", "others")

#: Who is explained, ranked and searched where.
_RANKED = tuple(PLACEMENTS[i] for i in (0, 1, 2, 5, 8, 9, 11, 16, 17))
_EXPLAINED = tuple(PLACEMENTS[i] for i in (0, 2, 6, 8, 9, 13))
_PRICES = {"A100-SXM4-80GB": 2.5, "A100-SXM4-40GB": 2.0, "V100-SXM2-16GB": 1.2, "T4": 0.4,
           "K80": 0.3, "MI300X": 4.0}  # fmt: skip


def answers(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Yield the name of each question with its answer."""
    for verb in (predictions, matrices, curves, rankings, explanations, plans):
        yield from verb(estimator)


def predictions(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Ask every job on every placement."""
    for kind in KINDS:
        for name, job in JOBS.items():
            for at, placement in enumerate(PLACEMENTS):
                asked = parse_placement(placement), observations(kind, name)
                yield (
                    f"predict | {name} | {kind} | {at}",
                    _tried(lambda job=job, asked=asked: estimator.estimate(job, *asked).to_dict()),
                )


def matrices(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Ask all jobs on all placements at once."""
    placements = [parse_placement(one) for one in PLACEMENTS]
    for kind in KINDS:
        seen = {row: observations(kind, name) for row, name in enumerate(JOBS)}
        if kind == "others":
            seen = {0: seen[0]}
        found = estimator.matrix(
            list(JOBS.values()), placements, {r: s for r, s in seen.items() if s}
        )
        numbers = ("samples_per_second", "low", "high", "step_time_s", "compute_time_s",
                   "sync_time_s", "peak_bytes")  # fmt: skip
        yield (
            f"matrix | {kind}",
            {
                **{name: _columns(getattr(found, name)) for name in numbers},
                "basis": basis_names(found.basis),
                "out_of_distribution": found.out_of_distribution.tolist(),
                "fits": found.fits.tolist(),
                "coverage": found.coverage,
                "model_version": found.model_version,
                "unpriced_operators": list(found.unpriced_operators),
                "errors": [[one.job, one.placement, str(one.error)] for one in found.errors],
                "warnings": sorted(found.warnings),
            },
        )


def curves(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Ask every job over the count."""
    asked = {
        "A100": CurveQuestion(accelerator="A100-SXM4-80GB", counts=(1, 2, 3, 8, 12, 16, 64)),
        "T4": CurveQuestion(
            accelerator="T4", counts=(1, 4, 8), per_host=4, zero_stage=1,
            network=Network(name="eth-25g", bandwidth_bytes_per_s=3.125e9, latency_s=3e-5),
        ),
    }  # fmt: skip
    for kind in KINDS:
        for name, job in JOBS.items():
            for where, question in asked.items():
                found = estimator.curve(job, question, observations(kind, name))
                numbers = ("counts", "samples_per_second", "low", "high", "step_time_s",
                           "compute_time_s", "sync_time_s", "exposed_communication_s", "efficiency",
                           "peak_bytes")  # fmt: skip
                yield (
                    f"curve | {name} | {kind} | {where}",
                    {
                        **{one: _columns(getattr(found, one)) for one in numbers},
                        "fits": found.fits.tolist(),
                        "basis": [basis.value for basis in found.basis],
                        "coverage": found.coverage,
                        "out_of_distribution": found.out_of_distribution,
                        "model_version": found.model_version,
                        "warnings": list(found.warnings),
                    },
                )


def rankings(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Rank placements of every job by every criterion."""
    placements = [parse_placement(one) for one in _RANKED]
    for kind in ("nothing", "eight"):
        for name, job in JOBS.items():
            for by in Criterion:
                if by is Criterion.GOODPUT and job.adaptation is None:
                    continue
                question = RankQuestion(by=by, most=5, prices=_PRICES)
                found = estimator.rank(job, placements, question, observations(kind, name))
                yield (
                    f"rank | {name} | {kind} | {by.value}",
                    {
                        "best": [_ranked(one) for one in found.best],
                        "left_out": [_ranked(one) for one in found.left_out],
                        "errors": {str(at): str(error) for at, error in found.errors.items()},
                        "model_version": found.model_version,
                        "warnings": list(found.warnings),
                    },
                )


def explanations(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Explain answers."""
    for kind in KINDS:
        for name in ("cnn", "language model", "language model, fp32", "job type"):
            for placement in _EXPLAINED:
                asked = JOBS[name], parse_placement(placement), observations(kind, name)
                found = _tried(lambda asked=asked: estimator.explain(*asked, most=1).to_dict())
                told = ("compute_time_s", "operators", "contributions", "nearest", "refused")
                yield (
                    f"explain | {name} | {kind} | {PLACEMENTS.index(placement)}",
                    {part: found[part] for part in told if part in found},
                )


def plans(estimator: Estimator) -> Iterator[tuple[str, Any]]:
    """Search the plans of language models."""
    for kind in ("nothing", "one", "eight"):
        for name in ("cnn", "language model", "language model, fp32"):
            for placement in ("4xA100-SXM4-80GB", "2x(4xV100-SXM2-16GB)"):
                asked = JOBS[name], parse_placement(placement), observations(kind, name)
                yield (
                    f"plans | {name} | {kind} | {placement}",
                    _tried(lambda asked=asked: _plans(estimator.search(*asked, most=3))),
                )


def _plans(found: Any) -> dict[str, Any]:
    return {
        "plans": [_flat(one) for one in found.plans],
        "considered": found.considered,
        "too_large": found.too_large,
        "why_none": found.why_none,
        "model_version": found.model_version,
        "warnings": list(found.warnings),
    }


def _ranked(one: Any) -> dict[str, Any]:
    batch = one.batch
    return {
        "position": one.placement,
        "score": one.score,
        "samples_per_second": one.estimate.throughput.samples_per_second,
        "samples_per_money": one.samples_per_money,
        "samples_per_joule": one.samples_per_joule,
        "left_out": one.left_out,
        "batch": None if batch is None else _flat(batch),
    }


def _flat(value: Any) -> Any:
    """Return a dataclass as a list of its values, numbers as they are."""
    if is_dataclass(value):
        return [_flat(getattr(value, field.name)) for field in fields(value)]
    return value if isinstance(value, float | int) else str(value)


def _columns(values: Any) -> Any:
    return [None if one != one else one for one in values.ravel().tolist()]


def _tried(answer: Any) -> Any:
    try:
        return answer()
    except PerfModelError as error:
        return {"refused": str(error), "pointer": getattr(error, "pointer", None)}
