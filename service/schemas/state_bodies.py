"""The bodies of answers about what the service remembers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from perfmodel.client import records, shadowing
from perfmodel.types import Phase, Role
from service.schemas.answer_bodies import Problem as Problem  # what records refer to
from service.schemas.from_dataclass import EXACT, model_of, page_of

JobEntry = model_of(records.StoredJob, "JobEntry", config=EXACT)
JobRegistered = model_of(records.RegisteredJob, "JobRegistered", config=EXACT)
JobsAnswer = page_of(JobEntry, "JobsAnswer", "jobs")

ObservationTaken = model_of(records.ObservationTaken, "ObservationTaken", config=EXACT)
ObservationsTaken = model_of(records.ObservationsTaken, "ObservationsTaken", config=EXACT)
ObservationsRemoved = model_of(records.ObservationsRemoved, "ObservationsRemoved", config=EXACT)
ObservationsChanged = model_of(records.ObservationsChanged, "ObservationsChanged", config=EXACT)
ObservationEntry = model_of(records.StoredObservation, "ObservationEntry", config=EXACT)
ObservationsAnswer = page_of(ObservationEntry, "ObservationsAnswer", "observations")

OperationEntry = model_of(records.Operation, "OperationEntry", config=EXACT)
OperationsAnswer = page_of(OperationEntry, "OperationsAnswer", "operations")

ModelsAnswer = model_of(records.Models, "ModelsAnswer")
ReloadAnswer = model_of(records.Reload, "ReloadAnswer")
ModelChangeEntry = model_of(records.ModelChange, "ModelChangeEntry", config=EXACT)
FactDifferenceEntry = model_of(records.FactDifference, "FactDifferenceEntry", config=EXACT)
ModelVersionAnswer = model_of(records.ModelVersion, "ModelVersionAnswer", config=EXACT)
ModelDifferencesAnswer = model_of(records.ModelDifferences, "ModelDifferencesAnswer", config=EXACT)
PromotionAnswer = model_of(records.Promotion, "PromotionAnswer", config=EXACT)
CollectionAnswer = model_of(records.Collection, "CollectionAnswer", config=EXACT)
ShadowGroupEntry = model_of(shadowing.ShadowGroup, "ShadowGroupEntry", config=EXACT)
ShadowQuestionEntry = model_of(shadowing.ShadowQuestion, "ShadowQuestionEntry", config=EXACT)
ShadowAnswer = model_of(shadowing.ShadowReport, "ShadowAnswer", config=EXACT)

GraphAnswer = model_of(records.RegisteredGraph, "GraphAnswer")
GraphShown = model_of(records.StoredGraph, "GraphShown", config=EXACT, summary="One graph.")
GraphEntry = model_of(
    records.StoredGraph, "GraphEntry", config=EXACT, without=("unpriced_operators",)
)
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
