"""Files and functions of ours that a question passes on its way to an answer.

Every call of a Python function is noted, in all threads, while one request is answered by the
application in this process. Five ways::

    from memory     a question that was asked before
    new placement   a known job on a placement that nobody asked about
    power limit     the same under a power limit
    matrix          three known jobs on six new placements
    observation     a step is reported, and the question after it is answered

The jobs, and the links of the placements, were asked about before, and nothing is predicted
beforehand meanwhile: what is worked out once is not on the way. Comprehensions and generators count
as part of the function that they stand in::

    python benchmarks/hops.py --list "new placement"
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOTS = ("/perfmodel/", "/service/")
MODELS = Path(__file__).resolve().parents[1] / "models"

JOB = {"model": "zoo/resnet18-cifar", "mode": "training", "batch_size": 64}
OTHERS = [{**JOB, "batch_size": 32}, {**JOB, "mode": "inference"}]


class Calls:
    """Functions that were called while it listens."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        self.listens = False

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; for :func:`sys.setprofile`."""
        if self.listens and event == "call":
            self.seen.add(frame.f_code)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Forget what was noted, and listen."""
        self.seen = set()
        self.listens = True
        yield
        self.listens = False

    def functions(self) -> list[tuple[str, str]]:
        """Return file and name of each function of ours, sorted."""
        return sorted(
            (code.co_filename, code.co_qualname)
            for code in self.seen
            if any(root in code.co_filename for root in ROOTS)
            and "site-packages" not in code.co_filename
            and not code.co_name.startswith("<")
        )


class Asking:
    """Sends requests to the application, in this thread."""

    def __init__(self, app: Any) -> None:
        import httpx

        self._prefetch = app.state.dispatcher.prefetch
        transport = httpx.ASGITransport(app=app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://testserver")

    async def __call__(self, path: str, body: Any) -> Any:
        """Return the JSON that is answered to a body."""
        answer = await self._client.post(path, json=body, timeout=120)
        if answer.status_code >= 300:
            raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        return answer.json()

    async def rest(self) -> None:
        """Wait until nothing is predicted beforehand any more."""
        while self._prefetch.count:
            await asyncio.sleep(0.05)


async def five_ways(ask: Asking, calls: Calls) -> dict[str, list[tuple[str, str]]]:
    """Take the five ways; returns the functions of each."""
    known = {"job": JOB, "placement": "4xA100-SXM4-80GB"}
    for job in (JOB, *OTHERS):
        for placement in (known["placement"], known["placement"], "3x(4xA100-SXM4-80GB)@ib-200g"):
            await ask("/v1/predict", {"job": job, "placement": placement})
    matrix = {
        "jobs": [JOB, *OTHERS],
        "placements": [f"{n}xA100-SXM4-80GB" for n in (1, 2, 3, 5, 6, 7)],
    }
    observation = {"job": JOB, "placement": "A100-SXM4-80GB", "batch_size": 64, "step_time_s": 0.02}
    ways: dict[str, list[tuple[str, Any]]] = {
        "from memory": [("/v1/predict", known)],
        "new placement": [("/v1/predict", {**known, "placement": "2x(4xA100-SXM4-80GB)@ib-200g"})],
        "power limit": [("/v1/predict", {**known, "placement": "4xA100-SXM4-80GB power=250"})],
        "matrix": [("/v1/matrix", matrix)],
        "observation": [
            ("/v1/observations", {"observations": [observation]}),
            ("/v1/predict", known),
        ],
    }
    found = {}
    for name, requests in ways.items():
        await ask.rest()
        with calls.listening():
            for path, body in requests:
                await ask(path, body)
        found[name] = calls.functions()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", metavar="WAY", help="name the functions of a way")
    asked = parser.parse_args()
    calls = Calls()
    # Before any thread starts, so that all of them are listened to.
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    with tempfile.TemporaryDirectory() as folder:
        from perfmodel.estimator import Estimator
        from service.app import create_app
        from service.settings import Settings

        settings = Settings(database=f"sqlite:///{folder}/state.db", models=MODELS, models_poll_s=0)
        app = create_app(Estimator.from_folder(MODELS), settings)
        found = asyncio.run(five_ways(Asking(app), calls))
    sys.setprofile(None)
    threading.setprofile(None)
    for name, functions in found.items():
        files = {path for path, _ in functions}
        print(f"{name:16} {len(files):4} files {len(functions):5} functions")
    for path, name in found.get(asked.list, []):
        print(f"    {path.split('/perfmodel/')[-1]:60} {name}")


if __name__ == "__main__":
    main()
