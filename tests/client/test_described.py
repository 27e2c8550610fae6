"""The service describes what the client sends, and what the client reads."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from perfmodel.client import answers, forms
from perfmodel.types import Basis
from service.schemas import answer_bodies, state_bodies
from service.schemas import question_bodies as bodies

FORMS = [
    (forms.Job, bodies.JobBody),
    (forms.Adaptation, bodies.AdaptationBody),
    (forms.Node, bodies.NodeBody),
    (forms.Network, bodies.NetworkBody),
    (forms.Plan, bodies.PlanBody),
    (forms.Placement, bodies.PlacementBody),
    (forms.Seen, bodies.ObservationBody),
    (forms.SeenInMatrix, bodies.MatrixObservationBody),
    (forms.Constraints, bodies.ConstraintsBody),
]


@pytest.mark.parametrize(("own", "described"), FORMS, ids=lambda kind: kind.__name__)
def test_forms_have_the_fields_that_are_described(own: Any, described: Any) -> None:
    assert set(own.__annotations__) == set(described.model_fields)
    needed = {name for name, field in described.model_fields.items() if field.is_required()}
    hints = get_type_hints(own, include_extras=True)
    stated = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    # A job has one of four kinds of model, and is total=False for that.
    assert stated == needed or not own.__total__


def test_answers_are_described_with_every_field_its_words_and_its_bounds() -> None:
    described = answer_bodies.PredictAnswer.model_json_schema()
    # What a client can do without is always sent.
    assert set(described["required"]) == {field.name for field in fields(answers.Estimate)}
    assert described["properties"]["basis"]["enum"] == [basis.value for basis in Basis]
    assert described["properties"]["sync_time_s"]["description"].startswith("All communication")
    price = state_bodies.PriceEntry.model_json_schema()
    assert price["properties"]["per_hour"]["exclusiveMinimum"] == 0
    assert price["additionalProperties"] is False
