"""A small world of steps on two GPUs and a CPU, timed by a law with known efficiencies.

Sketches are those of real operators; a row takes ``roofline / efficiency`` and every call an
overhead, ``t = sum_i count_i (roofline_i / e_kind(i) + o)``. A device may be slower than its
specification says by a factor that nothing but a measurement tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from synthetic_workloads import DEVICE, convnet, mlp

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import step_table
from perfmodel.graph.workload import Workload
from perfmodel.types import Mode

#: FLOP/s of fp32, bytes/s, cores.
_RATES = {"Gpu-S": (4e12, 2e11, 20), "Gpu-L": (1.6e13, 8e11, 80), "Gpu-New": (8e12, 4e11, 40),
          "Gpu-M": (1e13, 5e11, 50), "Gpu-T": (6e12, 3e11, 30)}  # fmt: skip
#: Share of the roofline that a row reaches, and what a call costs.
_EFFICIENCY = {"contraction": 0.6, "traffic": 0.4}
_OVERHEAD_S = 15e-6
KNOWN = ("Gpu-S", "Gpu-L", "Cpu")


def device(name: str) -> AcceleratorSpec:
    """Five GPUs, whose caches are not known, and the CPU, with eight cores."""
    if name == "Cpu":
        return replace(DEVICE, name=name, core_count=8, peak_flops={"fp32": 1e12})
    flops, bandwidth, cores = _RATES[name]
    return replace(
        DEVICE, name=name, kind="gpu", peak_flops={"fp32": flops}, tdp_w=flops / 4e10,
        bandwidth_bytes_per_s=bandwidth, cache_bytes=None, core_count=cores, clock_hz=1.5e9,
    )  # fmt: skip


def law_s(step: Step) -> float:
    """The law; rows written out so that it does not rest on the code under test."""
    sketch, spec = step.sketch, step.accelerator
    total = 0.0
    for i in range(len(sketch.count)):
        compute = sketch.flops[i] / spec.peak_flops["fp32"]
        memory = sketch.traffic_bytes[i] / spec.bandwidth_bytes_per_s
        kind = "contraction" if sketch.matrix[i] else "traffic"
        alone = max(compute, memory) / _EFFICIENCY[kind] + _OVERHEAD_S
        total += float(sketch.count[i]) * alone
    return total


@cache
def networks() -> tuple[tuple[str, str, int, Mode, StepSketch], ...]:
    """Family, model, batch size, mode and sketch: six families of three models each."""
    return tuple(_networks())


def _networks() -> Iterator[tuple[str, str, int, Mode, StepSketch]]:
    for number in range(6):
        for turn in range(3):
            for batch in (4, 16):
                for training in (False, True):
                    if number % 2:
                        width, kernel = 16 * (turn + 1) + 4 * number, (1, 3, 5)[number // 2]
                        graph = convnet(batch, width, 2 + turn, kernel, training=training)
                    else:
                        widths = [256 * (turn + 1) + 32 * number] * (3 + number // 2)
                        graph = mlp(batch * 16, widths, "relu", training=training)
                    mode = Mode.TRAINING if training else Mode.INFERENCE
                    model = f"made-up/f{number}-{turn}"
                    yield f"family{number}", model, batch, mode, step_sketch(graph)


def step(sketch: StepSketch, name: str, *, batch: int = 4, mode: Mode = Mode.INFERENCE) -> Step:
    """One step with PyTorch 2.4."""
    return Step(
        sketch=sketch, accelerator=device(name), mode=mode, batch_size=batch,
        software={"torch": "2.4.0"}, threads=8 if name == "Cpu" else None,
    )  # fmt: skip


def samples(
    names: Sequence[str] = KNOWN, *, slower: float = 1.0, noise: float = 0.02, seed: int = 0
) -> list[StepSample]:
    """Every network on every device, ``slower`` times as long as the law says."""
    rng = np.random.default_rng(seed)
    found = []
    for family, model, batch, mode, sketch in networks():
        for name in names:
            one = step(sketch, name, batch=batch, mode=mode)
            time_s = slower * law_s(one) * float(np.exp(noise * rng.standard_normal()))
            found.append(
                StepSample(
                    step=one, step_time_s=time_s, model=model, family=family, source="made-up"
                )
            )
    return found


def new_workload(name: str, *, width: int = 448, training: bool = False) -> Workload:
    """A network that no family of :func:`networks` holds."""
    graph = mlp(64, [width] * 4, "relu", training=training)
    return Workload(
        graph=graph, accelerator=device(name), batch_size=4, software={"torch": "2.4.0"},
        mode=Mode.TRAINING if training else Mode.INFERENCE,
        threads=8 if name == "Cpu" else None,
    )  # fmt: skip


def table_of(found: Sequence[StepSample]) -> tuple[object, np.ndarray, np.ndarray]:
    """Table, log times and equal weights of samples."""
    logs = np.log([sample.step_time_s for sample in found])
    return step_table([sample.step for sample in found]), logs, np.ones(len(found))
