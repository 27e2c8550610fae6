"""Fit the constants of parallel plans on published training steps of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from perfmodel.errors import StoreError, TrainingError
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_fit import OPEN, START, fit_constants
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows

#: Import formats with steps of each stack.
FORMATS: Mapping[Stack, str] = {
    Stack.MEGATRON: "vtrain",
    Stack.TORCH: "llm-foundry",
    Stack.XLA: "llm-training",
}

SOURCE = "VIA-Research/vTrain; mosaicml/llm-foundry; AI-Hypercomputer/maxtext and tpu-recipes"
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
    megatron, torch, xla = (steps_of(data, stack) for stack in Stack)
    splits = constants_of(megatron)
    sharded = constants_of(torch, start=shared_start(splits))
    scores = {name: getattr(sharded, name) for name in _SCORES_ON_CHIP}
    constants = {
        Stack.MEGATRON.value: rounded(asdict(replace(splits, **scores))),
        Stack.TORCH.value: rounded(asdict(sharded)),
        Stack.XLA.value: rounded(asdict(constants_of(xla))),
    }
    return document("plans", constants, SOURCE, len(megatron) + len(torch) + len(xla))


def steps_of(data: Path, stack: Stack) -> PlanRows:
    """Read the steps of a stack.

    Raises
    ------
    TrainingError
        The table is not there.
    """
    rows = plan_rows(published(data, FORMATS[stack]), stack)
    if rows is None:
        raise TrainingError(f"{data} holds no table of {FORMATS[stack]}; fit-placement needs it.")
    return rows


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
