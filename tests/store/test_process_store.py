from __future__ import annotations

from pathlib import Path

import pytest
from made_up_process_records import collective, loader, neighbour, provenance, replica

from perfmodel.errors import StoreError
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.profiles.process_store import ProcessStore

EVERY = [collective(), replica(), neighbour(), neighbour(neighbour=None, alone_s=None), loader()]


@pytest.fixture
def store(tmp_path: Path) -> ProcessStore:
    made = ProcessStore(tmp_path)
    for record in EVERY:
        made.append(record)
    return made


def test_records_are_there_at_once_and_the_same_in_tables(store: ProcessStore) -> None:
    pending = store.records()
    assert len(pending) == len(EVERY) and all(record in pending for record in EVERY)
    files = store.compact()
    assert sorted(path.name.split("-")[0] for path in files) == [
        "collectives", "loaders", "neighbours", "replicas",
    ]  # fmt: skip
    assert store.records() == pending
    assert store.records("replicas") == [replica()]
    assert not list(store.folder.glob("*/pending"))
    assert store.compact() == []


def test_the_newest_of_equal_measurements_counts(store: ProcessStore) -> None:
    store.compact()
    newer = collective(2e-3, provenance=provenance("2026-12-01T00:00:00+00:00"))
    older = collective(3e-3, provenance=provenance("2025-01-01T00:00:00+00:00"))
    for record in (newer, older):
        store.append(record)
        store.compact()
    assert store.records("collectives") == [newer]
    assert len(list(store.folder.glob("*/collectives-*.parquet"))) == 3


def test_steps_beside_them_are_another_store(store: ProcessStore) -> None:
    store.compact()
    assert ProfileStore(store.folder).devices() == []


def test_a_damaged_file_is_named(store: ProcessStore) -> None:
    (table,) = [path for path in store.compact() if path.name.startswith("loaders")]
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(StoreError, match=table.name):
        store.records()
    pending = store.append(replica(replicas=4))
    pending.write_bytes(pending.read_bytes()[:40])
    with pytest.raises(StoreError, match=r"replicas-.*measure again"):
        store.records("replicas")
    with pytest.raises(StoreError, match=pending.name):
        store.compact()
    assert pending.exists()
