"""The facade: joins jobs, graphs, predictors and placements into answers."""

from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.matrix import CellError, MatrixEstimate, basis_names
from perfmodel.estimator.model import StepModel, StepPrediction
from perfmodel.estimator.step import CapturedStep, GraphSource, PreparedJob, job_key

__all__ = [
    "CapturedStep",
    "CellError",
    "Estimator",
    "GraphSource",
    "MatrixEstimate",
    "PreparedJob",
    "StepModel",
    "StepPrediction",
    "basis_names",
    "job_key",
]
