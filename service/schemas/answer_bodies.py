"""The bodies of answers to questions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, RootModel

from perfmodel.client import answers, errors, forms
from service.schemas.from_dataclass import model_of, stands_for
from service.schemas.question_bodies import PlanBody

ProblemItem = model_of(errors.ProblemItem, "ProblemItem", config=None)
Problem = model_of(errors.Problem, "Problem", config=None)


class RefusedRequest(Problem):  # type: ignore[misc,valid-type]
    """An error (RFC 9457) that answers a whole request."""

    error: str = Field(description="The detail again, as the v2 inference protocol names it.")


ThroughputBody = model_of(answers.Throughput, "ThroughputBody", config=None)
BreakdownBody = model_of(answers.Breakdown, "BreakdownBody", config=None)
MemoryBody = model_of(answers.Memory, "MemoryBody", config=None)
NeighbourBody = model_of(answers.Neighbour, "NeighbourBody", config=None)
PredictAnswer = model_of(answers.Estimate, "PredictAnswer", config=None)

CellProblem = model_of(answers.CellProblem, "CellProblem", config=None)
MatrixAnswer = model_of(answers.Matrix, "MatrixAnswer", config=None)
CurveAnswer = model_of(answers.Curve, "CurveAnswer", config=None)

BatchBody = model_of(answers.Batch, "BatchBody", config=None)
RankedBody = model_of(answers.Ranked, "RankedBody", config=None)
PlacementProblem = model_of(answers.PlacementProblem, "PlacementProblem", config=None)
PlacementRanking = model_of(answers.Ranking, "PlacementRanking", config=None)
PlacementKindBody = model_of(answers.PlacementKind, "PlacementKindBody")
PlacementFactsBody = model_of(answers.PlacementFacts, "PlacementFactsBody")
PlacementsAnswer = model_of(answers.Placements, "PlacementsAnswer", config=None)
stands_for(forms.Plan, PlanBody)
PlanBodyFound = model_of(answers.FoundPlan, "PlanBodyFound", config=None)
PlanRankingBody = model_of(answers.PlanRanking, "PlanRankingBody", config=None)


class RankAnswer(RootModel[PlacementRanking | PlanRankingBody]):  # type: ignore[valid-type]
    """What was ranked."""


ClassShareBody = model_of(answers.ClassShare, "ClassShareBody")
OperatorShareBody = model_of(answers.OperatorShare, "OperatorShareBody")
RooflineBody = model_of(answers.Roofline, "RooflineBody")
NearPointBody = model_of(answers.NearPoint, "NearPointBody")
ContributionBody = model_of(answers.Contribution, "ContributionBody")
ExplainAnswer = model_of(answers.Explanation, "ExplainAnswer")

KernelAnswerBody = model_of(answers.KernelAnswer, "KernelAnswerBody")
KernelProblem = model_of(answers.KernelProblem, "KernelProblem", config=None)
KernelsAnswer = model_of(answers.Kernels, "KernelsAnswer", config=None)

AccuracyPoint = model_of(answers.AccuracyPoint, "AccuracyPoint")
AcceleratorAccuracy = model_of(answers.AcceleratorAccuracy, "AcceleratorAccuracy")
AccuracyAnswer = model_of(answers.Accuracy, "AccuracyAnswer")


class HealthAnswer(BaseModel):
    """State of the service."""

    status: Literal["live", "ready", "degraded"]
    detail: list[str] = []
