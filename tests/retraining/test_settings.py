"""Settings of a retraining as they are read."""

from __future__ import annotations

import orjson
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.retraining.settings import parse_settings


@pytest.mark.parametrize("seed", ["-1", "9007199254740992", "99999999999999999999", "1.5", "true"])
def test_a_number_that_cannot_be_is_refused_with_those_that_can(seed: str) -> None:
    with pytest.raises(InvalidInputError, match="seed must be a whole number from 0 to 9007199254"):
        parse_settings(orjson.loads(f'{{"seed": {seed}}}'))
    assert parse_settings({"seed": 2**53 - 1}).seed == 2**53 - 1
