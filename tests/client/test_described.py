"""What a client may send has the fields that the service describes.

Answers need no such test: their description is made from the types of the client.
"""

from __future__ import annotations

from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from perfmodel.client import forms
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
