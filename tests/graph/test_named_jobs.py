"""Names of job types may carry their batch."""

from __future__ import annotations

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import named_job
from perfmodel.json_values import MAX_COUNT
from perfmodel.types import Mode


@pytest.mark.parametrize("batch", [0, MAX_COUNT + 1, 10**30])
def test_a_batch_in_a_name_is_one_that_a_job_may_have(batch: int) -> None:
    assert named_job(f"LM (batch size {MAX_COUNT})", 1, Mode.TRAINING) == ("LM", MAX_COUNT)
    with pytest.raises(InvalidInputError) as refused:
        named_job(f"LM (batch size {batch})", 1, Mode.TRAINING)
    assert f"from 1 to {MAX_COUNT}" in str(refused.value)
