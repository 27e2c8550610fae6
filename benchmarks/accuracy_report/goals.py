"""The lines of the headline table: some rows of a split, and the error to reach on them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from held_out.held_out_answers import AnswerTable

from perfmodel.features.arrays import BoolArray


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a row must be; an empty word lets anything pass.

    Parameters
    ----------
    source, kind, mode, compiler, device, framework : str
        As in :class:`~held_out.held_out_answers.AnswerTable`.
    """

    source: str = ""
    kind: str = ""
    mode: str = ""
    compiler: str = ""
    device: str = ""
    framework: str = ""

    def of(self, table: AnswerTable) -> BoolArray:
        """Return which rows of a table are such."""
        chosen = np.ones(len(table), dtype=np.bool_)
        for fact in fields(self):
            word = getattr(self, fact.name)
            if word:
                chosen &= getattr(table, fact.name) == word
        return chosen


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Rows that are judged together.

    Parameters
    ----------
    name : str
        Short word, for files.
    title : str
        For people.
    target : float or None
        MAPE to reach; None where the line stands for contrast.
    probes : int
        Records of the left-out device that the answers have taken into account.
    """

    name: str
    title: str
    split: str
    target: float | None = None
    selection: Selection = field(default_factory=Selection)
    probes: int = 0

    def rows(self, table: AnswerTable, choice: str = "") -> AnswerTable:
        """Return the rows of a table that belong to this line, with its number of probes.

        Parameters
        ----------
        choice : str
            How the probes were chosen; empty for the planned choice, where there is one, and
            for all others together where there is none.
        """
        chosen = (table.split == self.split) & self.selection.of(table)
        chosen &= table.probes == self.probes
        if self.probes:
            known = sorted(set(table.choice[chosen].tolist()))
            planned = choice or ("planned" if "planned" in known else "")
            if planned:
                chosen &= table.choice == planned
        return table.take(chosen)


_TIMM = Selection(source="timm", kind="gpu", mode="inference")
_EAGER = replace(_TIMM, compiler="eager")
_COMPILED = replace(_TIMM, compiler="inductor")

GOALS: tuple[Goal, ...] = (
    Goal(
        name="timm-inference-unseen-family",
        title="timm inference, eager, seen GPU, unseen family",
        split="unseen-family",
        target=0.07,
        selection=_EAGER,
    ),
    Goal(
        name="timm-inference-unseen-device",
        title="timm inference, eager, unseen GPU, models seen elsewhere",
        split="unseen-device",
        target=0.09,
        selection=_EAGER,
    ),
    Goal(
        name="timm-inference-3-probes",
        title="the same after 3 probes",
        split="unseen-device",
        probes=3,
        selection=_EAGER,
    ),
    Goal(
        name="timm-inference-5-probes",
        title="the same after 5 probes",
        split="unseen-device",
        target=0.05,
        probes=5,
        selection=_EAGER,
    ),
    Goal(
        name="timm-inference-10-probes",
        title="the same after 10 probes",
        split="unseen-device",
        probes=10,
        selection=_EAGER,
    ),
    Goal(
        name="timm-inference-unseen-device-family",
        title="timm inference, eager, unseen GPU and unseen family",
        split="unseen-device-family",
        target=0.11,
        selection=_EAGER,
    ),
    Goal(
        name="timm-compiled-unseen-family",
        title="timm inference, compiled, seen GPU, unseen family",
        split="unseen-family",
        target=0.09,
        selection=_COMPILED,
    ),
    Goal(
        name="timm-compiled-unseen-device",
        title="timm inference, compiled, unseen GPU, models seen elsewhere",
        split="unseen-device",
        selection=_COMPILED,
    ),
    Goal(
        name="timm-training-unseen-family",
        title="timm training, RTX 3090, unseen family",
        split="unseen-family",
        target=0.07,
        selection=Selection(source="timm", mode="training", device="RTX-3090"),
    ),
    Goal(
        name="cpu-inference-unseen-family",
        title="CPU inference, batch 1, unseen family",
        split="unseen-family",
        target=0.11,
        selection=Selection(source="timm", kind="cpu", mode="inference"),
    ),
    Goal(
        name="lambda-unseen-device",
        title="Lambda training, one GPU, each device left out in turn",
        split="unseen-device",
        target=0.10,
        selection=Selection(source="lambda", mode="training"),
    ),
    Goal(
        name="lambda-unseen-family",
        title="Lambda training, one GPU, unseen task",
        split="unseen-family",
        selection=Selection(source="lambda", mode="training"),
    ),
    Goal(
        name="examples-unseen-device",
        title="NVIDIA DeepLearningExamples training, one GPU, unseen device",
        split="unseen-device",
        selection=Selection(source="nvidia-dle", mode="training"),
    ),
    Goal(
        name="cnn-unseen-device",
        title="image classifiers in five frameworks, one GPU, each device left out in turn",
        split="unseen-device",
        target=0.14,
        selection=Selection(source="cnn-steps"),
    ),
    Goal(
        name="cnn-pytorch-unseen-device",
        title="the same, steps of PyTorch alone",
        split="unseen-device",
        target=0.11,
        selection=Selection(source="cnn-steps", framework="pytorch"),
    ),
    Goal(
        name="cnn-tensorflow-unseen-device",
        title="the same, steps of TensorFlow alone",
        split="unseen-device",
        target=0.11,
        selection=Selection(source="cnn-steps", framework="tensorflow"),
    ),
    Goal(
        name="diffusion-unseen-device",
        title="Stable Diffusion 1.5, each device left out in turn, the model seen elsewhere",
        split="unseen-device",
        selection=Selection(source="stable-diffusion"),
    ),
    Goal(
        name="profiles-unseen-family",
        title="own profiles, unseen family",
        split="unseen-family",
        selection=Selection(source="profiles"),
    ),
    Goal(
        name="timm-inference-newer-software",
        title="timm inference, PyTorch 2.9 and later never seen, on a GPU seen with older ones",
        split="newer-software",
        selection=_TIMM,
    ),
    Goal(
        name="timm-inference-random",
        title="timm inference, eager, random (flatters)",
        split="random",
        selection=_EAGER,
    ),
)
