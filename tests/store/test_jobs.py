from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from made_up_observations import stored_job

from perfmodel.errors import InvalidInputError
from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import JobStore


@pytest.fixture
def jobs(database: Database) -> JobStore:
    return JobStore(database.connections)


def test_a_job_is_registered_once(jobs: JobStore) -> None:
    assert jobs.find("a-8") is None
    first, created = jobs.register(stored_job())
    assert created and first.created_at
    again, created = jobs.register(stored_job())
    assert not created and again == first == jobs.find("a-8")


def test_pages_hold_every_job_once_while_others_are_added(jobs: JobStore) -> None:
    for size in range(1, 8):
        jobs.register(stored_job(batch_size=size))
    first = jobs.page(limit=3)
    jobs.register(stored_job("later"))
    second = jobs.page(limit=3, cursor=first.next_cursor)
    third = jobs.page(limit=3, cursor=second.next_cursor)
    seen = [job.ref for page in (first, second, third) for job in page.items]
    assert seen == [f"a-{size}" for size in range(7, 0, -1)]  # 3 + 3 + 1, newest first
    assert third.next_cursor is None


def test_a_page_that_is_just_full_is_the_last(jobs: JobStore) -> None:
    jobs.register(stored_job())
    assert jobs.page(limit=1).next_cursor is None


@pytest.mark.parametrize("cursor", ["", "12", "before-", "before-xyz", "before-" + "f" * 16])
def test_a_cursor_of_others_is_refused(jobs: JobStore, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        jobs.page(cursor=cursor)


def test_one_of_many_that_register_a_job_together_creates_it(jobs: JobStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        created = [made for _, made in pool.map(jobs.register, [stored_job()] * 12)]
    assert created.count(True) == 1
