"""The facade: joins jobs, graphs, predictors and placements into answers."""

from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.captured_step import CapturedStep, GraphSource
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.tables.table import AskedJob, CellError, Table, basis_names
from perfmodel.predictors.prediction import StepModel

__all__ = [
    "AskedJob",
    "CapturedStep",
    "CellError",
    "Estimator",
    "GraphSource",
    "PreparedJob",
    "StepModel",
    "Table",
    "basis_names",
]
