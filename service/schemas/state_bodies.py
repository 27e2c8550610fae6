"""The bodies of answers about what the service remembers, its catalogue and its learning."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.client import feedback, records, shadowing
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


#: The facts that each accelerator has; others stand beside them.
AcceleratorBody = model_of(
    records.Accelerator,
    "AcceleratorBody",
    config=ConfigDict(extra="allow"),
    without=(
        "architecture", "form_factor", "year", "tdp_w", "link_bandwidth_bytes_per_s", "custom",
    ),
)  # fmt: skip
AcceleratorsAnswer = model_of(records.Accelerators, "AcceleratorsAnswer", config=None)

AliasAnswer = model_of(records.Alias, "AliasAnswer")
PriceEntry = model_of(records.Price, "PriceEntry")
PricesAnswer = model_of(records.Prices, "PricesAnswer")


class AcceleratorFacts(BaseModel):
    """Facts of an accelerator in SI units; a fact that nobody states is left out."""

    model_config = EXACT

    kind: Literal["gpu", "cpu", "tpu", "npu"]
    vendor: str
    architecture: str
    form_factor: str
    peak_flops: dict[Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"], float] = Field(
        description="Dense peaks, FLOP/s with fp32 accumulation; int8 in operations/s."
    )
    memory_bytes: float = Field(gt=0)
    bandwidth_bytes_per_s: float = Field(gt=0)
    peak_flops_fp16_accumulate: float | None = Field(None, gt=0)
    matmul_flops_per_s: float | None = Field(None, gt=0)
    has_fp4: bool = Field(False, description="Matrix units multiply elements of four bits.")
    cache_bytes: float | None = Field(None, gt=0, description="Last-level cache.")
    core_count: int | None = Field(None, gt=0)
    clock_hz: float | None = Field(None, gt=0)
    sustained_clock_hz: float | None = Field(
        None, gt=0, description="What lasts under load, where it is not the boost clock."
    )
    tdp_w: float | None = Field(None, gt=0)
    pcie_generation: float | None = Field(None, gt=0)
    link: str | None = Field(None, description="What joins neighbours within a host: `nvlink4`.")
    link_bandwidth_bytes_per_s: float | None = Field(None, gt=0, description="One direction.")
    year: int | None = Field(None, gt=0)
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each number comes from."
    )
    notes: str = ""
    name: str | None = Field(None, description="As in the path.")


CampaignEntry = model_of(records.Campaign, "CampaignEntry")
CampaignEntered = model_of(records.EnteredCampaign, "CampaignEntered")
CampaignReferenceEntry = model_of(records.CampaignReference, "CampaignReferenceEntry")
CampaignShown = model_of(records.CampaignShown, "CampaignShown")
CampaignsAnswer = page_of(CampaignEntry, "CampaignsAnswer", "campaigns")

CampaignTaskEntry = model_of(records.CampaignTask, "CampaignTaskEntry")
CampaignTasksAnswer = page_of(
    CampaignTaskEntry, "CampaignTasksAnswer", "tasks", what="tasks of a campaign"
)

RetrainingEntry = model_of(records.Retraining, "RetrainingEntry")
RetrainingEntered = model_of(records.EnteredRetraining, "RetrainingEntered")
RetrainingsAnswer = page_of(RetrainingEntry, "RetrainingsAnswer", "retrainings")
RetrainingLineEntry = model_of(records.RetrainingLine, "RetrainingLineEntry")
RetrainingLogAnswer = model_of(records.RetrainingLog, "RetrainingLogAnswer")

AlarmRemedyEntry = model_of(feedback.AlarmRemedy, "AlarmRemedyEntry")
AlarmDoubtEntry = model_of(feedback.AlarmDoubt, "AlarmDoubtEntry")
DriftAlarmEntry = model_of(feedback.DriftAlarm, "DriftAlarmEntry")
AlarmsAcknowledgedAnswer = model_of(feedback.AlarmsAcknowledged, "AlarmsAcknowledgedAnswer")
DriftGroupEntry = model_of(feedback.DriftGroup, "DriftGroupEntry")
DriftReporterEntry = model_of(feedback.DriftReporter, "DriftReporterEntry")
DriftPointEntry = model_of(feedback.DriftPoint, "DriftPointEntry")
DriftAnswer = model_of(feedback.Drift, "DriftAnswer")
DriftCampaignEntered = model_of(feedback.DriftCampaign, "DriftCampaignEntered")
DriftCampaignsEntered = model_of(feedback.DriftCampaigns, "DriftCampaignsEntered")
