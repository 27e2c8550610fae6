"""The types of the client are those that the service describes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from perfmodel.client import answers, catalogue, errors, explanations, forms, records
from service import schemas, schemas_explain, schemas_state

ANSWERS = [
    (answers.Estimate, schemas.PredictAnswer),
    (answers.Throughput, schemas.ThroughputBody),
    (answers.Breakdown, schemas.BreakdownBody),
    (answers.Memory, schemas.MemoryBody),
    (answers.Neighbour, schemas.NeighbourBody),
    (answers.Matrix, schemas.MatrixAnswer),
    (answers.CellProblem, schemas.CellProblem),
    (answers.Curve, schemas.CurveAnswer),
    (answers.Ranking, schemas.PlacementRanking),
    (answers.Ranked, schemas.RankedBody),
    (answers.Batch, schemas.BatchBody),
    (answers.PlacementProblem, schemas.PlacementProblem),
    (answers.PlanRanking, schemas.PlanRankingBody),
    (answers.FoundPlan, schemas.PlanBodyFound),
    (catalogue.Accelerators, schemas.AcceleratorsAnswer),
    (errors.Problem, schemas.Problem),
    (errors.ProblemItem, schemas.ProblemItem),
    (records.RegisteredGraph, schemas.GraphAnswer),
    (records.Models, schemas.ModelsAnswer),
    (records.Health, schemas.HealthAnswer),
    (records.Reload, schemas.ReloadAnswer),
    (records.Alias, schemas_state.AliasAnswer),
    (records.Operation, schemas_state.OperationEntry),
    (explanations.Explanation, schemas_explain.ExplainAnswer),
    (explanations.ClassShare, schemas_explain.ClassShareBody),
    (explanations.OperatorShare, schemas_explain.OperatorShareBody),
    (explanations.Roofline, schemas_explain.RooflineBody),
    (explanations.NearPoint, schemas_explain.NearPointBody),
    (explanations.Contribution, schemas_explain.ContributionBody),
    (explanations.Accuracy, schemas_explain.AccuracyAnswer),
    (explanations.AccuracyPoint, schemas_explain.AccuracyPoint),
    (explanations.AcceleratorAccuracy, schemas_explain.AcceleratorAccuracy),
    (records.StoredGraph, schemas_state.GraphShown),
    (records.Price, schemas_state.PriceEntry),
    (catalogue.Prices, schemas_state.PricesAnswer),
    (records.StoredJob, schemas_state.JobEntry),
    (records.RegisteredJob, schemas_state.JobRegistered),
    (records.ObservationTaken, schemas_state.ObservationTaken),
    (records.ObservationsTaken, schemas_state.ObservationsTaken),
    (records.StoredObservation, schemas_state.ObservationEntry),
]

FORMS = [
    (forms.Job, schemas.JobBody),
    (forms.Adaptation, schemas.AdaptationBody),
    (forms.Node, schemas.NodeBody),
    (forms.Network, schemas.NetworkBody),
    (forms.Plan, schemas.PlanBody),
    (forms.Placement, schemas.PlacementBody),
    (forms.Seen, schemas.ObservationBody),
    (forms.SeenInMatrix, schemas.MatrixObservationBody),
    (forms.Constraints, schemas.ConstraintsBody),
]


@pytest.mark.parametrize(("own", "described"), ANSWERS, ids=lambda kind: kind.__name__)
def test_answers_have_the_fields_that_are_described(own: Any, described: Any) -> None:
    assert {field.name for field in fields(own)} == set(described.model_fields)


@pytest.mark.parametrize(("own", "described"), FORMS, ids=lambda kind: kind.__name__)
def test_forms_have_the_fields_that_are_described(own: Any, described: Any) -> None:
    assert set(own.__annotations__) == set(described.model_fields)
    needed = {name for name, field in described.model_fields.items() if field.is_required()}
    hints = get_type_hints(own, include_extras=True)
    stated = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    # A job has one of four kinds of model, and is total=False for that.
    assert stated == needed or not own.__total__
