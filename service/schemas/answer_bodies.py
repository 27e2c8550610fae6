"""The bodies of answers to questions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, RootModel

from perfmodel.client import answers, errors, forms
from service.schemas.from_dataclass import EXACT, model_of, stands_for
from service.schemas.question_bodies import PlanBody

ProblemItem = model_of(errors.ProblemItem, "ProblemItem")
Problem = model_of(errors.Problem, "Problem")

ThroughputBody = model_of(answers.Throughput, "ThroughputBody")
BreakdownBody = model_of(answers.Breakdown, "BreakdownBody")
MemoryBody = model_of(answers.Memory, "MemoryBody")
NeighbourBody = model_of(answers.Neighbour, "NeighbourBody")
PredictAnswer = model_of(answers.Estimate, "PredictAnswer")

CellProblem = model_of(answers.CellProblem, "CellProblem")
MatrixAnswer = model_of(answers.Matrix, "MatrixAnswer")
CurveAnswer = model_of(answers.Curve, "CurveAnswer")

BatchBody = model_of(answers.Batch, "BatchBody")
RankedBody = model_of(answers.Ranked, "RankedBody")
PlacementProblem = model_of(answers.PlacementProblem, "PlacementProblem")
PlacementRanking = model_of(answers.Ranking, "PlacementRanking")
stands_for(forms.Plan, PlanBody)
PlanBodyFound = model_of(answers.FoundPlan, "PlanBodyFound")
PlanRankingBody = model_of(answers.PlanRanking, "PlanRankingBody")


class RankAnswer(RootModel[PlacementRanking | PlanRankingBody]):  # type: ignore[valid-type]
    """What was ranked."""


ClassShareBody = model_of(answers.ClassShare, "ClassShareBody", config=EXACT)
OperatorShareBody = model_of(answers.OperatorShare, "OperatorShareBody", config=EXACT)
RooflineBody = model_of(answers.Roofline, "RooflineBody", config=EXACT)
NearPointBody = model_of(answers.NearPoint, "NearPointBody", config=EXACT)
ContributionBody = model_of(answers.Contribution, "ContributionBody", config=EXACT)
ExplainAnswer = model_of(answers.Explanation, "ExplainAnswer", config=EXACT)

KernelAnswerBody = model_of(answers.KernelAnswer, "KernelAnswerBody", config=EXACT)
KernelProblem = model_of(answers.KernelProblem, "KernelProblem")
KernelsAnswer = model_of(answers.Kernels, "KernelsAnswer")

AccuracyPoint = model_of(answers.AccuracyPoint, "AccuracyPoint", config=EXACT)
AcceleratorAccuracy = model_of(answers.AcceleratorAccuracy, "AcceleratorAccuracy", config=EXACT)
AccuracyAnswer = model_of(answers.Accuracy, "AccuracyAnswer", config=EXACT)


class HealthAnswer(BaseModel):
    """State of the service."""

    status: Literal["live", "ready", "degraded"]
    detail: list[str] = []
