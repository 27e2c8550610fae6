"""The one contract that every predictor keeps.

A predictor stores its settings in the constructor, learns in :meth:`Predictor.fit`, answers in
:meth:`Predictor.predict`, and goes to disk and back through :meth:`Predictor.save` and
:meth:`Predictor.load`. What was learned ends in ``_``. Concrete predictors are final: to vary
one, wrap it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from perfmodel.features.arrays import FloatArray
from perfmodel.graph.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measured workload to learn from.

    Parameters
    ----------
    step_time_s : float
        Measured median step time, > 0.
    family : str
        Architecture family; samples of one family never lie on both sides of a split.
    node_times_s : mapping of int to float
        Measured times of some nodes by position; empty where none were taken.
    model : str
        Model reference, for reports.
    spread : float
        Relative width of the repeated timings, (90 % quantile - 10 % quantile) / median.
    """

    workload: Workload
    step_time_s: float
    family: str
    node_times_s: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    weight: float = 1.0
    model: str = ""
    spread: float = 0.0


class Predictor(ABC):
    """Predicts the time of one step of a workload.

    Attributes
    ----------
    needs_fit : bool
        False when :meth:`predict` works before :meth:`fit`.
    """

    name: ClassVar[str]
    needs_fit: ClassVar[bool] = True

    @abstractmethod
    def fit(self, samples: Sequence[Sample]) -> Self:
        """Learn from measured workloads.

        Raises
        ------
        TrainingError
            Too few samples, or a time that is not finite and positive.
        """

    @abstractmethod
    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the step time of each workload.

        Returns
        -------
        ndarray, shape (len(workloads),)
            Seconds, finite, > 0, and never below the roofline of the priced operators.
        """

    def predict_nodes(self, workload: Workload) -> FloatArray | None:
        """Return the time of each node, where the predictor has one.

        Returns
        -------
        ndarray, shape (len(workload.graph.nodes),), or None
            Seconds, >= 0. Up to a factor for overlap they add up to the step time.
        """
        return None

    @abstractmethod
    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write what was learned into a folder (JSON, safetensors; never a pickle).

        Returns
        -------
        mapping
            JSON-able facts for the manifest: column schema, settings.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises
        ------
        DamagedArtifactError
            Content that cannot be what was written.
        """
