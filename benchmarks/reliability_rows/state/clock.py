"""The clock of the day jumps, ahead and back, under a service that answers and writes."""

from __future__ import annotations

import json
import time
from itertools import cycle, islice

from _servers import service
from reliability_rows.row import Found
from reliability_rows.state.asking import JOB, Caller, is_whole, said
from reliability_rows.state.faults import faulty_folder

PORT = 18_830
_HOUR_S = 3_600
#: Seconds from the real time; each jump is the way from one to the next.
CLOCKS_S = (
    _HOUR_S, 0, -_HOUR_S, 2 * _HOUR_S, -30 * 24 * _HOUR_S, 10 * 8_766 * _HOUR_S, 0,
    -10 * 8_766 * _HOUR_S, 1, -1,
)  # fmt: skip
#: Until what was asked for is done, seconds.
_DONE_S = 10.0
_SETTINGS = {"PERFMODEL_RETRAIN_HERE": "false"}


def measure(count: int) -> Found:
    """Let the clock jump so often."""
    with faulty_folder() as (kept, faults):
        caller, slowest_s = Caller(PORT), 0.0
        with service(kept, PORT, settings={**faults.settings, **_SETTINGS}):
            known = caller.predict()
            for off_s in islice(cycle(CLOCKS_S), count):
                faults.set_clock(off_s)
                slowest_s = max(slowest_s, _once(caller, known))
            received = caller.observations()
            lost = caller.acknowledged - {one["key"] for one in received}
        whole = is_whole(kept / "bench.db")
    measured = (
        f"{count} jumps of up to 20 years: {len(caller.acknowledged)} observations acknowledged, "
        f"received in the years {_years(received)}, {len(lost)} lost; later answers done "
        f"after {slowest_s:.1f} s at most; the database is {'whole' if whole else 'DAMAGED'}; "
        f"promises: {said(caller.wrong)}"
    )
    held = not caller.wrong and not lost and whole and ("," in _years(received) or count < 6)
    return Found(measured=measured, held=held)


def _years(received: list[dict]) -> str:
    """Return the years that the service took it to be, which show that its clock did jump."""
    return ", ".join(sorted({one["received_at"][:4] for one in received}))


def _once(caller: Caller, known: bytes) -> float:
    """Ask, observe and have something answered later; returns how long that took."""
    if caller.predict() != known:
        caller.wrong.append("a prediction changed with the clock")
    if not caller.observe():
        caller.wrong.append("an observation was refused")
    if caller.ask("/v2/health/ready")[0] != 200:
        caller.wrong.append("it said that it is not ready")
    began = time.monotonic()
    question = {"jobs": [JOB], "placements": ["T4", "A10"]}
    status, content = caller.ask("/v1/matrix", question, headers={"Prefer": "respond-async"})
    if status != 202:
        caller.wrong.append(f"a later answer was refused: {status} {content[:200]!r}")
        return 0.0
    path = f"/v1/operations/{json.loads(content)['id']}"

    def later_answer_is_done() -> bool:
        status, content = caller.ask(path)
        return status == 200 and json.loads(content)["state"] == "done"

    caller.until(later_answer_is_done, _DONE_S)
    return time.monotonic() - began
