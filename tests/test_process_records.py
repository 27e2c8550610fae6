from __future__ import annotations

import orjson
import pytest
from made_up_process_records import collective, loader, neighbour, provenance, repeats, replica

from perfmodel.errors import InvalidInputError
from perfmodel.process_records import (
    ProcessRecord,
    device_of,
    kind_of,
    record_from_dict,
    record_key,
    record_to_dict,
)

EVERY: list[ProcessRecord] = [collective(), replica(), neighbour(), loader()]


@pytest.mark.parametrize("record", EVERY, ids=kind_of)
def test_a_record_survives_json(record: ProcessRecord) -> None:
    text = orjson.dumps(record_to_dict(record))
    assert record_from_dict(orjson.loads(text)) == record


@pytest.mark.parametrize("record", EVERY, ids=kind_of)
def test_what_is_no_record_is_refused(record: ProcessRecord) -> None:
    plain = record_to_dict(record)
    del plain["repeats"]["time_s"]
    with pytest.raises(InvalidInputError, match="Measure it again"):
        record_from_dict(plain)
    with pytest.raises(InvalidInputError, match="collectives, replicas"):
        record_from_dict({**record_to_dict(record), "kind": "something"})


def test_times_and_dates_do_not_change_a_key_and_what_was_asked_does() -> None:
    later = provenance("2026-12-01T00:00:00+00:00")
    assert record_key(collective()) == record_key(collective(2e-3, provenance=later))
    assert record_key(neighbour()) == record_key(neighbour(alone_s=0.3))
    keys = {record_key(one) for one in (*EVERY, collective(ranks=3), neighbour(neighbour=None))}
    assert len(keys) == 6


def test_devices_rates_and_spreads() -> None:
    assert [device_of(one) for one in EVERY] == ["cpu-made-up-1c"] * 2 + ["cpu-made-up-2c"] * 2
    # 32 samples in 0.1 s.
    assert loader(0.1).samples_per_second == pytest.approx(320)
    assert repeats(0.5).spread == 0.0
