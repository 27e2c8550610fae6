"""The count of tensors against real steps on the CPU of this machine, to the byte."""

from __future__ import annotations

import numpy as np
from placement_accuracy.line import Line

from perfmodel.graph.job import Job
from perfmodel.placement.memory.memory_profile import memory_profile
from perfmodel.types import Mode

#: Small jobs of many kinds; each runs in seconds on one core.
JOBS = (
    Job(model="timm/resnet18", mode=Mode.TRAINING, batch_size=4, optimizer="momentum"),
    Job(model="timm/vit_tiny_patch16_224", mode=Mode.TRAINING, batch_size=4, optimizer="adamw"),
    Job(model="timm/mobilenetv3_small_100", mode=Mode.TRAINING, batch_size=8, optimizer="sgd"),
    Job(model="timm/convnext_atto", mode=Mode.TRAINING, batch_size=4, optimizer="adam"),
    Job(model="timm/efficientnet_b0", mode=Mode.TRAINING, batch_size=2, optimizer="momentum"),
    Job(model="timm/mixer_s32_224", mode=Mode.TRAINING, batch_size=4, optimizer="adam"),
    Job(
        model="timm/vit_tiny_patch16_224",
        mode=Mode.TRAINING,
        batch_size=4,
        optimizer="adamw",
        activation_checkpointing=True,
    ),
    Job(
        model="timm/resnet18",
        mode=Mode.TRAINING,
        batch_size=2,
        optimizer="adam",
        accumulation_steps=2,
    ),
    Job(model="timm/resnet18", batch_size=4),
    Job(model="timm/vit_tiny_patch16_224", batch_size=4),
)


def evaluate_cpu() -> Line:
    """Run small jobs on the CPU and compare the peaks of their tensors.

    Returns
    -------
    Line
        Nothing is fitted here, so nothing is left out.
    """
    from placement_accuracy.tensor_memory import peak_tensor_bytes_of

    from perfmodel.zoo.resolve import build_program, capture_job

    profiles = [memory_profile(capture_job(job)) for job in JOBS]
    measured = [peak_tensor_bytes_of(build_program(job, device="cpu")) for job in JOBS]
    return Line(
        name="memory-cpu",
        title="Peak of the tensors of real steps on a CPU",
        measured=np.array(measured),
        predicted=np.array([profile.peak_tensor_bytes for profile in profiles]),
        groups=[job.label for job in JOBS],
        jobs=[f"{job.label} {job.mode}" for job in JOBS],
        baselines={
            "held and activations at their peak": np.array(
                [
                    profile.held_bytes
                    + profile.gradient_bytes
                    + float(profile.activation_corners.max())
                    for profile in profiles
                ]
            )
        },
        target=0.06,
        note="Measured by the events of PyTorch's allocator on one thread; nothing was fitted.",
    )
