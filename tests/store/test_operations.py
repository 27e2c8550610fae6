from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfmodel.store.database import Database
from perfmodel.store.operations import OperationState, OperationStore


@pytest.fixture
def operations(migrated_url: str) -> Iterator[OperationStore]:
    database = Database(migrated_url)
    yield OperationStore(database.connections)
    database.close()


def test_an_operation_runs_until_it_is_done(operations: OperationStore) -> None:
    started = operations.start("capture")
    assert operations.find(started.name) == started
    assert operations.advance(started.name, 0.5)
    assert operations.finish(started.name, '{"jobs":3}')
    done = operations.find(started.name)
    assert done is not None
    assert (done.state, done.progress, done.result) == (OperationState.DONE, 1.0, '{"jobs":3}')
    assert done.updated_at >= done.created_at == started.created_at


def test_what_has_ended_stays_as_it_is(operations: OperationStore) -> None:
    started = operations.start("capture")
    assert operations.fail(started.name, '{"title":"Stopped"}')
    assert not operations.advance(started.name, 0.9)
    assert not operations.finish(started.name, "{}")
    failed = operations.find(started.name)
    assert failed is not None
    assert (failed.state, failed.progress, failed.result) == (OperationState.FAILED, 0.0, None)
    assert failed.problem == '{"title":"Stopped"}'


def test_nobody_else_has_its_name(operations: OperationStore) -> None:
    assert operations.start("a").name != operations.start("a").name
    assert operations.find("nothing") is None
    assert not operations.advance("nothing", 0.5)


def test_operations_are_listed_newest_first(operations: OperationStore) -> None:
    names = [operations.start("capture").name for _ in range(3)]
    first = operations.page(limit=2)
    second = operations.page(limit=2, cursor=first.next_cursor)
    listed = [operation.name for page in (first, second) for operation in page.items]
    assert listed == names[::-1]
    assert second.next_cursor is None
