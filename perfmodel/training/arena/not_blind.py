"""What was chosen after a look at answers that the report judges, so that a reader can discount it.

Everything else was chosen inside the training part of a fold.
"""

from __future__ import annotations

NOT_BLIND: tuple[str, ...] = (
    "How far a training step trusts the member that learned from cells of its job "
    "(`_CELLS_TO_TRUST` in `perfmodel/predictors/joint.py`): after a look at five of the Lambda "
    "devices.",
    "The width of intervals of new jobs (`_ALL_TOGETHER`) and of jobs on devices without training "
    "records (`_JOB_ON_NEW_DEVICE_VARIANCE`): after a look at the coverage of the timm lines; one "
    "number each, for all groups.",
    "The noise of a probe in `perfmodel probe-plan`: after a look at residuals of RTX 3090 and "
    "RTX 4090.",
    "Sorts of rows with settings of their own (`perfmodel/features/row_sorts.py`): after a look "
    "at which families of timm were off in training; nothing was fitted on them.",
    "Limits and grids of the kernel and plan predictors: on the folds that are reported.",
)
