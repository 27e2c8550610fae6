"""Hand-made step samples: real sketches of small graphs, times by a law with known constants.

On a device with rate ``r`` and overhead ``o`` a step takes ``flops / r + o * launches``, so that
what a learner or a baseline should find can be written down.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import report_path  # noqa: F401
from held_out.step_totals import step_totals
from synthetic_workloads import DEVICE, convnet, mlp

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

#: Devices by name: rate in FLOP/s, launch overhead in seconds.
SPEEDS = {"Slow-1": (1e11, 4e-6), "Mid-2": (2e11, 3e-6), "Fast-4": (4e11, 2e-6)}


def device(name: str) -> AcceleratorSpec:
    """A GPU whose peak is twice the rate that it reaches."""
    rate, _ = SPEEDS[name]
    return replace(
        DEVICE, name=name, kind="gpu", architecture=f"Chip of {name}",
        peak_flops={"fp32": 2 * rate}, bandwidth_bytes_per_s=rate,
    )  # fmt: skip


def time_s(sketch: StepSketch, name: str) -> float:
    """The law."""
    rate, overhead = SPEEDS[name]
    return float(sketch.count @ sketch.flops / rate + overhead * sketch.count.sum())


def sample(
    sketch: StepSketch, name: str, *, model: str, family: str, batch: int = 8,
    source: str = "timm", mode: Mode = Mode.INFERENCE, compiler: Compiler = Compiler.EAGER,
    torch: str = "2.4.0", noise: float = 0.0,
) -> StepSample:  # fmt: skip
    step = Step(
        sketch=sketch, accelerator=device(name), mode=mode, batch_size=batch,
        precision=Precision.FP32, memory_format=MemoryFormat.CHANNELS_FIRST, compiler=compiler,
        software={"torch": torch},
    )  # fmt: skip
    measured = time_s(sketch, name) * float(np.exp(noise))
    return StepSample(step=step, step_time_s=measured, model=model, family=family, source=source)


def sketches(families: int, per_family: int, seed: int = 0) -> list[tuple[str, str, StepSketch]]:
    """Family, model and sketch of small networks."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(families):
        # No two networks of a kind have the same width, so that every job is another one.
        widths = 4 + number // 2 + families * rng.permutation(per_family)
        for turn, width in enumerate(widths.tolist()):
            depth = int(rng.integers(2, 7))
            if number % 2:
                graph = convnet(8, width, depth, 3, training=False)
            else:
                graph = mlp(128, [width * 16] * (depth + 1), "relu", training=False)
            found.append((f"family{number}", f"timm/f{number}-{turn}", step_sketch(graph)))
    return found


def corpus(families: int = 12, per_family: int = 6, *, noise: float = 0.02) -> list[StepSample]:
    """Every network on every device; half of them with newer software too."""
    rng = np.random.default_rng(1)
    found = []
    for family, model, sketch in sketches(families, per_family):
        for name in SPEEDS:
            for torch in ("2.4.0", "2.9.1") if name != "Slow-1" else ("2.4.0",):
                drawn = noise * float(rng.standard_normal())
                found.append(
                    sample(sketch, name, model=model, family=family, torch=torch, noise=drawn)
                )
    return found


def flops(one: StepSample) -> float:
    return step_totals(one.step).flops
