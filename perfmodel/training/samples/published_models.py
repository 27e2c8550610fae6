"""Is the captured model the one that was published? Its number of parameters tells.

Some tables measured models with the branches of training merged into single convolutions, under
the same names; others keep a name whose definition has changed since. A step whose captured model
has another number of parameters than the published one is captured again with merged branches,
and dropped if that is not it either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedStep
from perfmodel.training.captures.kept_sketches import KeptSketch
from perfmodel.types import Mode

#: Said of a step whose model could not be told.
ANOTHER_MODEL = "the model has another number of parameters than the published one"

#: Counts are published in millions with two digits.
_ROUNDING = 0.006e6
_RELATIVE = 0.004
_MERGED = "reparameterize"


def agrees(step: PublishedStep, kept: KeptSketch) -> bool:
    """Tell whether a captured model can be the published one; yes where a count is not known."""
    published, captured = step.parameter_count, kept.parameter_count
    if published is None or captured is None:
        return True
    return abs(published - captured) <= max(_ROUNDING, _RELATIVE * published)


def merged(job: Job) -> Job | None:
    """Return the job with merged branches; None where that is no option."""
    if not (job.model or "").startswith("timm/") or job.mode is not Mode.INFERENCE:
        return None
    return dataclasses.replace(job, model_kwargs={**job.model_kwargs, _MERGED: True})


def measured_merged(
    steps: Sequence[PublishedStep], plain: Sequence[KeptSketch | None], merges: Mapping[int, bool]
) -> set[int]:
    """Return which steps were measured with merged branches.

    Parameters
    ----------
    plain : sequence of KeptSketch or None
        Capture of each as it is named.
    merges : mapping of int to bool
        By position, for steps whose plain capture does not agree: whether the merged one does.

    Returns
    -------
    set of int
        Those, and all steps of the same family in the same table: a table is measured in one way,
        and few models tell the difference by the digits that are published.
    """
    told = {_table(steps[i], plain[i]) for i, agreed in merges.items() if agreed}
    return {
        i
        for i, (step, kept) in enumerate(zip(steps, plain, strict=True))
        if kept is not None and _table(step, kept) in told
    }


def _table(step: PublishedStep, kept: KeptSketch | None) -> tuple[str, str]:
    return PurePath(step.origin.file).name, kept.family if kept is not None else ""
