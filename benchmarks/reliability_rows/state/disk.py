"""The disk fails from the Nth change of a file on, and works again later."""

from __future__ import annotations

import errno

from _servers import service
from reliability_rows.row import Found
from reliability_rows.state.asking import JOB, Caller, is_whole, said
from reliability_rows.state.faults import Faults, faulty_folder

PORT = 18_820
#: How a disk fails; it is full most often.
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)
#: More changes than any request makes.
_MOST_CHANGES = 24
RECOVERS_S = 5.0


def measure(count: int) -> Found:
    """Let the disk fail so often, each time at another change."""
    with faulty_folder() as (kept, faults):
        caller, slowest_s = Caller(PORT), 0.0
        with service(kept, PORT, settings=faults.settings):
            known = caller.predict()
            for turn in range(count):
                slowest_s = max(slowest_s, _once(caller, faults, turn, known))
            lost = caller.acknowledged - caller.stored()
        whole = is_whole(kept / "bench.db")
    measured = (
        f"{count} failures: {caller.refused.total()} changes refused "
        f"({_named(caller)}), {len(caller.acknowledged)} observations acknowledged, {len(lost)} of "
        f"them lost; taken again after {slowest_s:.1f} s at most; the database is "
        f"{'whole' if whole else 'DAMAGED'}; promises: {said(caller.wrong)}"
    )
    held = not caller.wrong and not lost and whole and caller.refused.total() > 0
    return Found(measured=measured, held=held)


def _named(caller: Caller) -> str:
    return ", ".join(f"{status}: {count}" for status, count in sorted(caller.refused.items()))


def _once(caller: Caller, faults: Faults, turn: int, known: bytes) -> float:
    """Fail once; returns how long it took until an observation was taken again."""
    new = {**JOB, "batch_size": 33 + turn}
    faults.fail(ERRORS[turn % len(ERRORS)], after=turn // len(ERRORS) % _MOST_CHANGES)
    caller.observe()
    if caller.predict() != known:
        caller.wrong.append("a known prediction changed while the disk failed")
    caller.predict({"job": new, "placement": "A10"})
    for path, body, method in (
        ("/v1/prices/T4", {"per_hour": 0.5 + turn}, "PUT"),
        ("/v1/jobs", {"job": {**new, "model": "timm/resnet18"}}, "POST"),
    ):
        status, content = caller.ask(path, body, method)
        if status >= 300:
            caller.note(status, content)
    if caller.ask("/v2/health/live")[0] != 200:
        caller.wrong.append("it said that it is not alive")
    caller.observe()
    faults.heal()
    return caller.until(caller.observe, RECOVERS_S)
