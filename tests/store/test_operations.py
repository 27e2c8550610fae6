from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from jumping_clock import jump
from waiting import until

from perfmodel.store.state.database import Database
from perfmodel.store.state.operations import Operation, OperationState, OperationStore

FOREVER_S = 3600.0


@pytest.fixture
def operations(migrated_url: str) -> Iterator[OperationStore]:
    database = Database(migrated_url)
    yield OperationStore(database.connections)
    database.close()


def _start(operations: OperationStore, kind: str = "matrix", request: bytes = b"{}") -> Operation:
    started = operations.start(kind, request, owner="a", caller="me")
    assert started is not None
    return started


def _state(operations: OperationStore, name: str) -> str:
    found = operations.find(name)
    assert found is not None
    return found.state.value


def test_an_operation_waits_runs_and_is_done(operations: OperationStore) -> None:
    started = _start(operations, request=b'{"jobs":[]}')
    assert (started.state, started.caller, started.attempts) == (OperationState.WAITING, "me", 0)
    claim = operations.claim("b", lease_s=FOREVER_S)
    assert claim is not None
    assert (claim.name, claim.request, claim.attempts) == (started.name, b'{"jobs":[]}', 1)
    assert _state(operations, started.name) == "running"
    assert operations.result(started.name) is None
    assert operations.finish(claim, b'{"cells":3}', status=201)
    done = operations.find(started.name)
    assert done is not None
    assert (done.state, done.status) == (OperationState.DONE, 201)
    assert operations.result(started.name) == b'{"cells":3}'
    assert operations.claim("b", lease_s=FOREVER_S) is None


def test_what_waits_longest_is_taken_first_and_by_one_only(operations: OperationStore) -> None:
    names = [_start(operations).name for _ in range(3)]
    claims = [operations.claim(owner, lease_s=FOREVER_S) for owner in "bcb"]
    assert [claim and claim.name for claim in claims] == names
    assert operations.claim("d", lease_s=FOREVER_S) is None
    assert [operations.depth(owner) for owner in "abc"] == [0, 2, 1]


def test_what_lost_its_worker_is_taken_over(operations: OperationStore) -> None:
    _start(operations)
    lost = operations.claim("b", lease_s=-1.0)  # its lease has run out already
    taken = operations.claim("c", lease_s=FOREVER_S)
    assert lost is not None and taken is not None
    assert (taken.name, taken.attempts) == (lost.name, 2)
    # The worker was slow, not dead: what it brings now is dropped.
    assert not operations.finish(lost, b"old")
    assert not operations.put_back(lost)
    assert operations.finish(taken, b"new")
    assert operations.result(taken.name) == b"new"


def test_a_renewed_lease_holds(operations: OperationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _start(operations)
    claim = operations.claim("b", lease_s=3.0)
    assert claim is not None
    operations.renew("b", [claim.name], lease_s=FOREVER_S)
    jump(monkeypatch, 4.0)
    assert operations.claim("c", lease_s=FOREVER_S) is None


def test_what_was_begun_too_often_has_failed(operations: OperationStore) -> None:
    name = _start(operations).name
    for _ in range(2):
        assert operations.claim("b", lease_s=-1.0, most_attempts=2) is not None
    assert operations.claim("b", lease_s=-1.0, most_attempts=2) is None
    assert operations.give_up('{"title":"Lost"}', status=500, most_attempts=2) == 1
    failed = operations.find(name)
    assert failed is not None
    assert (failed.state, failed.problem) == (OperationState.FAILED, '{"title":"Lost"}')
    assert operations.give_up("{}", status=500, most_attempts=2) == 0


def test_what_is_put_back_waits_its_time(operations: OperationStore) -> None:
    kept, sooner = (_start(operations).name for _ in range(2))
    waits_s = {kept: FOREVER_S, sooner: 0.8}
    for name, wait_s in waits_s.items():
        claim = operations.claim("b", lease_s=FOREVER_S)
        assert claim is not None and claim.name == name
        began = time.monotonic()
        assert operations.put_back(claim, wait_s=wait_s, counts=False)
        assert _state(operations, name) == "waiting"
    again = until(lambda: operations.claim("b", lease_s=FOREVER_S))
    assert time.monotonic() - began > 0.7  # clocks tick
    assert (again.name, again.attempts) == (sooner, 1)
    assert operations.claim("b", lease_s=FOREVER_S) is None


def test_no_more_than_so_many_are_open(operations: OperationStore) -> None:
    assert operations.start("matrix", b"", owner="a", most_open=1) is not None
    assert operations.start("matrix", b"", owner="a", most_open=1) is None
    claim = operations.claim("a", lease_s=FOREVER_S)
    assert claim is not None and operations.fail(claim, "{}", status=422)
    assert operations.start("matrix", b"", owner="a", most_open=1) is not None


def test_what_was_removed_or_is_old_is_gone(
    operations: OperationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, ended, waiting = (_start(operations).name for _ in range(3))
    assert operations.remove(removed)
    assert not operations.remove(removed)
    claim = operations.claim("a", lease_s=10.0)
    assert claim is not None and claim.name == ended
    operations.finish(claim, b"{}")
    assert operations.forget_ended(100.0) == 0
    # The clock of the database: a host whose own is ahead forgets nothing of others.
    jump(monkeypatch, 111.0)
    assert operations.forget_ended(100.0) == 1
    assert operations.find(ended) is None
    assert _state(operations, waiting) == "waiting"


def test_operations_are_listed_newest_first(operations: OperationStore) -> None:
    names = [_start(operations, kind).name for kind in ("jobs", "matrix", "jobs")]
    first = operations.page(limit=2)
    second = operations.page(limit=2, cursor=first.next_cursor)
    listed = [operation.name for page in (first, second) for operation in page.items]
    assert listed == names[::-1]
    assert second.next_cursor is None
    assert [one.name for one in operations.page(kind="matrix").items] == [names[1]]
    assert operations.page(state=OperationState.DONE).items == ()
