"""Fit the constants of parallel plans on published training steps of transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import StoreError, TrainingError
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_fit import OPEN, START, fit_constants
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows

#: Import formats with steps of each stack.
FORMATS: Mapping[Stack, tuple[str, ...]] = {
    Stack.MEGATRON: ("vtrain",),
    Stack.MEGATRON_CORE: ("megatron-bridge", "dgxc-benchmarking", "nemo"),
    Stack.TORCH: ("llm-foundry",),
    Stack.XLA: ("llm-training",),
}

SOURCE = (
    "VIA-Research/vTrain; mosaicml/llm-foundry; AI-Hypercomputer/maxtext and tpu-recipes; "
    "NVIDIA-NeMo/Megatron-Bridge, NVIDIA/dgxc-benchmarking, NVIDIA/NeMo"
)
_SCORES_ON_CHIP = ("fused_score_efficiency", "score_cycles")


def fit(data: Path) -> dict[str, Any]:
    """Return the constants of all stacks, with where they come from.

    What sharded steps cannot tell (splits of products, sends, scores in memory) is taken from
    split ones, and from them what those cannot tell: scores that stay on the chip.

    Raises
    ------
    TrainingError
        One of the tables is not there.
    """
    megatron, core, torch, xla = (steps_of(data, stack) for stack in Stack)
    core = core.take(learned_from(core))
    splits = constants_of(megatron)
    sharded = constants_of(torch, start=shared_start(splits))
    scores = {name: getattr(sharded, name) for name in _SCORES_ON_CHIP}
    constants = {
        Stack.MEGATRON.value: rounded(asdict(replace(splits, **scores))),
        Stack.MEGATRON_CORE.value: rounded(asdict(constants_of(core))),
        Stack.TORCH.value: rounded(asdict(sharded)),
        Stack.XLA.value: rounded(asdict(constants_of(xla))),
    }
    rows = len(megatron) + len(core) + len(torch) + len(xla)
    return document("plans", constants, SOURCE, rows)


def steps_of(data: Path, stack: Stack) -> PlanRows:
    """Read the steps of a stack.

    Raises
    ------
    TrainingError
        The table is not there.
    """
    records = [one for name in FORMATS[stack] for one in published(data, name)]
    rows = plan_rows(records, stack)
    if rows is None:
        wanted = ", ".join(FORMATS[stack])
        raise TrainingError(f"{data} holds no table of {wanted}; fit-placement needs it.")
    return rows


def is_locked(rows: PlanRows) -> npt.NDArray[np.bool_]:
    """Tell which steps are of the fifth of models, by their widths, that no constant is fitted on.

    A model that was cut down to fewer layers is the same one.
    """
    shape = rows.cells.shape
    inner = shape.expert_weights / shape.hidden_size
    widths = np.stack((shape.hidden_size, inner, shape.experts), axis=1).astype(np.int64)
    digests = [hashlib.sha256(str(one.tolist()).encode()).digest()[0] for one in widths]
    return np.array([digest % 5 == 0 for digest in digests])


def learned_from(rows: PlanRows) -> npt.NDArray[np.int64]:
    """Return the rows that a fit sees: of runs that differ in their replicas alone the middle one.

    A table that repeats a run for ten sizes of cluster, or printed it under ten releases, tells
    ten times the same. Locked ones are left out.
    """
    plan, shape = rows.cells.plan, rows.cells.shape
    same = np.stack(
        (
            plan.tensor, plan.pipeline, plan.context, plan.expert, plan.virtual_stages,
            plan.zero_stage, plan.micro_batch, shape.hidden_size, shape.layers, shape.experts,
            shape.sequence_length, shape.expert_weights, rows.cells.device.peak_flops,
        ), axis=1,
    )  # fmt: skip
    rate = plan.samples / plan.accelerators / rows.step_time_s
    alike: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(~is_locked(rows)).tolist():
        alike.setdefault(same[row].tobytes(), []).append(row)
    middles = [sorted(found, key=rate.__getitem__)[len(found) // 2] for found in alike.values()]
    return np.array(sorted(middles), dtype=np.int64)


def published(data: Path, name: str) -> tuple[PublishedPlacement, ...]:
    """Return the placements of an import format; none where its table is not there."""
    try:
        return read_format(name, data).placements
    except StoreError:
        return ()


def constants_of(rows: PlanRows, *, start: PlanConstants | None = None) -> PlanConstants:
    """Return the constants fitted on some rows."""
    return fit_constants(
        rows.cells, rows.step_time_s, rows.stack, between=rows.between, start=start
    )


def shared_start(splits: PlanConstants) -> PlanConstants:
    """Return where the fit of sharded steps begins: what it cannot tell is as given."""
    begin = START[Stack.TORCH]
    kept = {name: getattr(begin, name) for name in (*OPEN[Stack.TORCH], "gradient_overlap")}
    return replace(splits, **kept)
