"""Predictions before anybody asks for them: of a new job, on the accelerators that matter.

A network times the operators of a graph once for each accelerator: some twenty milliseconds that
all accelerators of one call share, and two to five for each. A scheduler that brings a new job asks
about it on the accelerators that it has, so that these are predicted within its registration, or
soon after the job became known to this process where others wait, or by its first question.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import PreparedJob
from service.answering.answerer import Answerer
from service.answering.thread_pool import ThreadPool, note_failure
from service.http.errors import OverloadedError
from service.metrics.registry import Metrics

logger = logging.getLogger(__name__)

#: Accelerators of one job, and jobs that may wait; whatever is beyond is predicted when it is
#: asked for.
MOST_ACCELERATORS = 16
MOST_WAITING = 256
#: Pairs of one call of the model: few enough that whoever asks meanwhile waits for milliseconds.
_AT_ONCE = 8
#: Placements that are looked at for the accelerators that were asked about last.
_LOOKED_AT = 512
#: How often it is looked whether somebody waits for an answer, and how often nobody may have:
#: whoever registers a job asks about it next, and would work the same out at the same time.
_POLL_S = 0.02
_QUIET_LOOKS = 3
#: A process that is busy for so long leaves a job to its questions.
_LONGEST_WAIT_S = 30.0


class Prefetch:
    """Predicts new jobs while nobody waits for an answer.

    What it works out lies where answers look for it, bounded as they are, and so goes over to
    another version of the model or to another catalogue as theirs does.

    Parameters
    ----------
    busy : callable
        Returns how many questions wait or are answered; work goes on while none is.
    metrics : Metrics
        Counts the jobs that wait, as the queue ``foresight``.
    """

    def __init__(
        self,
        serving: Callable[[], Answerer],
        busy: Callable[[], int],
        metrics: Metrics,
        prices: Callable[[], Iterable[str]],
    ) -> None:
        self._serving = serving
        self._busy = busy
        self._prices = prices
        self._threads = ThreadPool("foresight", metrics, workers=1, most=MOST_WAITING)
        self._waiting: set[str] = set()
        self._lately: tuple[str, ...] = ()
        self._is_closed = False

    @property
    def count(self) -> int:
        """Jobs that wait or are worked on."""
        return self._threads.count

    def add(self, prepared: PreparedJob) -> None:
        """Work a job out soon; one too many is left to its questions."""
        if prepared.key in self._waiting:
            return
        self._waiting.add(prepared.key)
        try:
            self._threads.submit(self._predict_later, prepared).add_done_callback(note_failure)
        except (OverloadedError, RuntimeError):  # the latter once it is closed
            self._waiting.discard(prepared.key)

    def predict_now(self, prepared: PreparedJob) -> None:
        """Work a job out before its registration is answered, unless others wait for answers.

        For the thread of the registration, which is the one that is busy then.
        """
        if self._busy() > 1:
            return
        try:
            for accelerators in _parts(self.accelerators()):
                self._predict_on(prepared, accelerators)
        except (PerfModelError, ArithmeticError) as error:
            logger.debug("%s was not worked out at once: %s", prepared.job.label, error)

    def close(self) -> None:
        """Work nothing more out."""
        self._is_closed = True
        self._threads.close()

    def accelerators(self) -> list[AcceleratorSpec]:
        """Return the accelerators that matter: asked about lately, an operator's own, priced."""
        answerer = self._serving()
        catalog = answerer.estimator.accelerators
        lately = dict.fromkeys((*answerer.cache.recent_accelerators(_LOOKED_AT), *self._lately))
        # Another version of the model has not been asked yet, and will be about the same ones.
        self._lately = tuple(islice(lately, MOST_ACCELERATORS))
        own, _ = catalog.own()
        names = dict.fromkeys((*self._lately, *(spec.name for spec in own), *self._prices()))
        found = []
        for name in islice(names, MOST_ACCELERATORS):
            with suppress(InvalidInputError):  # it was taken away since
                found.append(catalog.get(name))
        return found

    def _predict_later(self, prepared: PreparedJob) -> None:
        try:
            # Whoever brought the job may be about to ask for some of it.
            if self._is_quiet():
                self._predict(prepared)
        except (PerfModelError, ArithmeticError) as error:
            logger.debug("%s was not worked out beforehand: %s", prepared.job.label, error)
        finally:
            self._waiting.discard(prepared.key)

    def _predict(self, prepared: PreparedJob) -> None:
        for accelerators in _parts(self.accelerators()):
            if not self._is_quiet():
                return
            self._predict_on(prepared, accelerators)

    def _predict_on(self, prepared: PreparedJob, accelerators: list[AcceleratorSpec]) -> None:
        self._serving().predict_steps((prepared, one) for one in accelerators)

    def _is_quiet(self) -> bool:
        """Wait until nobody waits for an answer; False if that does not come about."""
        until_s = time.monotonic() + _LONGEST_WAIT_S
        quiet = 0
        while quiet < _QUIET_LOOKS:
            if self._is_closed or time.monotonic() > until_s:
                return False
            quiet = 0 if self._busy() else quiet + 1
            time.sleep(_POLL_S)
        return not self._is_closed


def _parts(accelerators: list[AcceleratorSpec]) -> Iterator[list[AcceleratorSpec]]:
    for start in range(0, len(accelerators), _AT_ONCE):
        yield accelerators[start : start + _AT_ONCE]
