"""The bodies of answers about what the service remembers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from perfmodel.client import records, shadowing
from perfmodel.types import Phase, Role
from service.schemas.answer_bodies import Problem as Problem  # what records refer to
from service.schemas.from_dataclass import EXACT, model_of, page_of

JobEntry = model_of(records.StoredJob, "JobEntry")
JobRegistered = model_of(records.RegisteredJob, "JobRegistered")
JobsAnswer = page_of(JobEntry, "JobsAnswer", "jobs")

ObservationTaken = model_of(records.ObservationTaken, "ObservationTaken")
ObservationsTaken = model_of(records.ObservationsTaken, "ObservationsTaken")
ObservationsRemoved = model_of(records.ObservationsRemoved, "ObservationsRemoved")
ObservationsChanged = model_of(records.ObservationsChanged, "ObservationsChanged")
ObservationEntry = model_of(records.StoredObservation, "ObservationEntry")
ObservationsAnswer = page_of(ObservationEntry, "ObservationsAnswer", "observations")

OperationEntry = model_of(records.Operation, "OperationEntry")
OperationsAnswer = page_of(OperationEntry, "OperationsAnswer", "operations")

ModelsAnswer = model_of(records.Models, "ModelsAnswer", config=None)
ReloadAnswer = model_of(records.Reload, "ReloadAnswer", config=None)
ModelChangeEntry = model_of(records.ModelChange, "ModelChangeEntry")
FactDifferenceEntry = model_of(records.FactDifference, "FactDifferenceEntry")
ModelVersionAnswer = model_of(records.ModelVersion, "ModelVersionAnswer")
ModelDifferencesAnswer = model_of(records.ModelDifferences, "ModelDifferencesAnswer")
PromotionAnswer = model_of(records.Promotion, "PromotionAnswer")
CollectionAnswer = model_of(records.Collection, "CollectionAnswer")
ShadowGroupEntry = model_of(shadowing.ShadowGroup, "ShadowGroupEntry")
ShadowQuestionEntry = model_of(shadowing.ShadowQuestion, "ShadowQuestionEntry")
ShadowAnswer = model_of(shadowing.ShadowReport, "ShadowAnswer")

GraphAnswer = model_of(records.RegisteredGraph, "GraphAnswer", config=None)
GraphShown = model_of(records.StoredGraph, "GraphShown", summary="One graph.")
GraphEntry = model_of(records.StoredGraph, "GraphEntry", without=("unpriced_operators",))
GraphsAnswer = page_of(GraphEntry, "GraphsAnswer", "graphs", what="registered graphs")

#: Operator, phase, positions of the tensors it reads and writes, attributes, name.
_NodeRow = tuple[str, Phase, list[int], list[int], dict[str, Any], str]
#: Shape, type of an element, role, number of the storage.
_TensorRow = tuple[list[int], str, Role, int]


class GraphJson(BaseModel):
    """A whole graph, as `perfmodel capture` writes it and `POST /v1/graphs` reads it."""

    model_config = EXACT

    format: Literal[1]
    nodes: list[_NodeRow] = Field(
        description="Of each: operator, phase, positions of the tensors that it reads and of those "
        "that it writes, attributes, name."
    )
    source: dict[str, str] = Field(description="Where the graph comes from.")
    tensors: list[_TensorRow] = Field(
        description="Of each: shape, type of an element, role, number of its storage."
    )
