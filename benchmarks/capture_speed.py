"""Time the capture of training steps of 40 timm models on one core, apart from building them.

python benchmarks/capture_speed.py
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Every 34th of timm's 1371 names would change with timm; these 40 stay, one or two of a family.
MODELS = (
    "beit_base_patch16_224", "cait_s24_224", "coat_lite_small", "coatnet_0_rw_224",
    "convit_base", "convnext_base", "convnextv2_tiny", "crossvit_15_240", "cspdarknet53",
    "davit_base", "deit3_base_patch16_224", "densenet121", "dla60", "dpn92", "edgenext_base",
    "efficientformer_l3", "efficientnet_b0", "efficientnet_b4", "fastvit_sa24", "focalnet_base_srf",
    "ghostnet_100", "hrnet_w32", "inception_v3", "inception_v4", "levit_256", "maxvit_tiny_tf_224",
    "mixer_b16_224", "mobilenetv3_large_100", "mvitv2_base", "nfnet_f0", "poolformer_m36",
    "pvt_v2_b2", "regnety_032", "res2net50_26w_4s", "resnest50d", "resnet50",
    "swin_base_patch4_window7_224", "tf_efficientnetv2_s", "vgg16", "vit_base_patch16_224",
)  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """Seconds of one model: a first time and the median of the repeats."""

    model: str
    nodes: int
    first_build_s: float
    first_capture_s: float
    build_s: float
    capture_s: float


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that some work takes, and its result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def measure(model: str, batch_size: int, repeats: int) -> Timing:
    """Time one model."""
    from perfmodel.capture.torch import capture
    from perfmodel.graph.job import Job
    from perfmodel.types import Mode
    from perfmodel.zoo.resolve import build_program

    job = Job(model=f"timm/{model}", mode=Mode.TRAINING, batch_size=batch_size, optimizer="adamw")
    builds, captures = [], []
    nodes = 0
    for _ in range(1 + repeats):
        gc.collect()
        build_s, program = timed(lambda: build_program(job))
        capture_s, graph = timed(lambda program=program: capture(program))  # type: ignore[misc]
        builds.append(build_s)
        captures.append(capture_s)
        nodes = len(graph.nodes)
    return Timing(
        model,
        nodes,
        builds[0],
        captures[0],
        statistics.median(builds[1:]),
        statistics.median(captures[1:]),
    )


def main() -> None:
    """Run the benchmark."""
    import torch

    from perfmodel.zoo.timm import timm_names

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--stop", type=int, default=len(MODELS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    timm_names()  # the imports are paid once for a process, not for a model
    measure("test_resnet", 2, 1)
    print(f"{'model':32}{'nodes':>7}{'build':>9}{'capture':>9}{'again: build':>14}{'capture':>9}")
    rows = []
    for model in MODELS[: args.stop]:
        row = measure(model, args.batch_size, args.repeats)
        rows.append(row)
        print(
            f"{row.model:32}{row.nodes:7}{row.first_build_s:9.3f}{row.first_capture_s:9.3f}"
            f"{row.build_s:14.3f}{row.capture_s:9.3f}",
            flush=True,
        )
    print(f"\n{len(rows)} models, training step with AdamW, batch size {args.batch_size}, one core")
    report("build", [row.first_build_s for row in rows])
    report("capture", [row.first_capture_s for row in rows])
    report("build and capture", [row.first_build_s + row.first_capture_s for row in rows])
    report("both, once more", [row.build_s + row.capture_s for row in rows])


def report(name: str, seconds: list[float]) -> None:
    """Print median and maximum."""
    print(f"{name:20}median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")


if __name__ == "__main__":
    main()
