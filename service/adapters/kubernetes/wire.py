"""Answers as the schedulers of Kubernetes decode them, for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel


class HostPriority(BaseModel):
    """The score of one node."""

    Host: str
    Score: Annotated[int, Field(ge=0, le=10)]


class HostPriorityList(RootModel[list[HostPriority]]):
    """Scores of all candidates, in the order in which they came."""


class ExtenderFilterResult(BaseModel):
    """Which candidates are left, in the form of the request, and why others are not."""

    Nodes: dict[str, Any] | None
    NodeNames: list[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class PrioritizeResponse(BaseModel):
    """Scores of nodes for Volcano."""

    nodeScore: dict[str, float]  # noqa: N815
    errorMessage: str  # noqa: N815


class PredicateResponse(BaseModel):
    """Whether a node will do for Volcano; the text is empty where it does."""

    status: str
    code: int


class JobEnqueueableResponse(BaseModel):
    """A vote for Volcano: 1 permits, -1 rejects, 0 abstains."""

    status: Literal[-1, 0, 1]


class SessionResponse(BaseModel):
    """Nothing."""


class AdmissionResponse(BaseModel):
    """What is to be done with an object; the patch is base64 of a JSON patch."""

    uid: str
    allowed: bool
    patchType: Literal["JSONPatch"] | None = None  # noqa: N815
    patch: str | None = None
    warnings: list[str] = []


class AdmissionAnswer(BaseModel):
    """An AdmissionReview with a response."""

    apiVersion: str  # noqa: N815
    kind: Literal["AdmissionReview"]
    response: AdmissionResponse
