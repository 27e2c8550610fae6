"""Who compares observations and looks for drift: one process of all on the database."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import final

from perfmodel.errors import MissingExtraError
from perfmodel.feedback.causes import KINDS
from perfmodel.store.feedback import Alarm, StoredResidual
from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.sql.leases import new_owner
from perfmodel.store.sql.polling import PollingThread
from perfmodel.store.state.observations import Changes
from service.dispatch.dispatcher import Dispatcher
from service.feedback.alarm_book import AlarmBook
from service.feedback.alarm_webhook import Webhook
from service.feedback.comparison import Comparison

logger = logging.getLogger(__name__)

#: Time after which a keeper that is not heard of is replaced, seconds.
LEASE_S = 10.0
#: Observations that are compared at a time, and the newest that another version is asked about.
AT_ONCE, NEWEST = 32, 2_000
#: How long one comparison waits for those who ask to be answered, at most: in threads; and where
#: the loop answers without a pause, which leaves comparing a twentieth of a core or so.
_LONGEST_WAIT_S, _BESIDE_LOOP_S, _LOOK_S = 0.5, 0.05, 0.01


@final
class DriftKeeper(PollingThread):
    """Holds observations against answers, folds the residuals and keeps the alarms.

    All of it happens in a thread of its own, after those who reported were answered, while nobody
    waits for an answer.

    Parameters
    ----------
    poll_s : float
        How often it is looked whether there is something to do; 0: never.
    share : float
        Of the time of a core that comparing may take while much waits, in (0, 1].
    """

    def __init__(
        self, dispatcher: Dispatcher, webhook: Webhook | None, *, poll_s: float, share: float
    ) -> None:
        super().__init__("drift", every_s=poll_s, complaint="observations cannot be compared")
        self._dispatcher = dispatcher
        self._state = state = dispatcher.state
        self._webhook = webhook
        self._share = share
        self._owner = new_owner()
        self._lease = KeeperLease(state.database.connections)
        self._keeping: Keeping | None = None
        self._comparison = Comparison(dispatcher.models.serving, state)
        self._book: AlarmBook | None = None
        self._seen = Changes(-1, -1)
        self._looks_back = self._folds_again = self._has_more = True
        self._now_version = ""
        self._tells_alarms = False

    def start(self) -> None:
        """Begin to look, where it is looked at all."""
        if self._every_s:
            super().start()

    def close(self) -> None:
        """Look no more, and let another process go on."""
        super().close()
        if self._keeping is not None:
            try:
                self._lease.put_back(self._keeping, counts=True)
            except Exception as error:  # its time runs out instead
                logger.info("the place of the keeper of drift is not given back: %s", error)

    def poll(self) -> None:
        """Do all that there is to do, with pauses for others."""
        more = True
        while more and not self._ended.is_set():
            begun_s = time.thread_time()
            more = self.round()
            spent_s = time.thread_time() - begun_s
            self._ended.wait(spent_s * (1 / self._share - 1) if more else 0.0)

    def round(self) -> bool:
        """Do what there is to do, for a bounded time; return whether more is left.

        Raises
        ------
        StoreError
            The database cannot be used.
        """
        if not self._is_keeper():
            if self._tells_alarms:
                # Whoever is the keeper now tells of them.
                self._tell_alarms(())
                self._tells_alarms = False
            return False
        assert self._keeping is not None
        if not self._tells_alarms:
            # Now: what was left to be compared may take long.
            self._tell_alarms(self._state.alarms.open_alarms())
            self._tells_alarms = True
        self._look()
        if self._has_more and not self._compare(self._keeping):
            self._keeping = None
            return False
        if not (self._has_more and self._folds_again):
            self._fold(self._keeping)
        if not self._has_more:
            self._ask_again(self._keeping)
        if self._webhook is not None:
            self._webhook.tell()
        return self._has_more or self._now_version != self._comparison.answerer.version

    def _is_keeper(self) -> bool:
        if self._keeping is not None and self._lease.renew(
            self._owner, [self._keeping.name], lease_s=LEASE_S
        ):
            return True
        self._keeping = self._lease.take(self._owner, lease_s=LEASE_S)
        if self._keeping is not None:
            # What another keeper did meanwhile is not known here.
            self._looks_back = self._folds_again = self._has_more = True
        return self._keeping is not None

    def _look(self) -> None:
        """Find out what happened since the last look."""
        serving = self._dispatcher.models.serving
        if self._comparison.answerer is not serving:
            self._comparison = Comparison(serving, self._state)
        seen = self._state.observations.changes()
        if seen.taken_back != self._seen.taken_back:
            self._looks_back = self._folds_again = self._has_more = True
        elif seen.revision != self._seen.revision:
            self._has_more = True
        self._seen = seen

    def _compare(self, keeping: Keeping) -> bool:
        """Compare some observations; False where somebody else is the keeper by now."""
        residuals = self._state.residuals
        newest = None if self._looks_back else residuals.newest_number()
        some = residuals.uncompared(limit=AT_ONCE, after=newest)
        found = []
        for one in some:
            self._let_others_first()
            found.append(self._comparison.residual(one))
        if found and not residuals.add(keeping, found):
            return False
        self._count(found)
        if len(some) < AT_ONCE:
            self._has_more = self._looks_back = False
        return True

    def _count(self, found: list[StoredResidual]) -> None:
        answered = sum(one.predicted_s is not None for one in found)
        self._dispatcher.metrics.compared(answered=answered, left_out=len(found) - answered)
        if self._book is not None and any(one.observation <= self._book.newest for one in found):
            self._folds_again = True

    def _fold(self, keeping: Keeping) -> None:
        if self._book is None:
            self._book = AlarmBook(self._state.residuals, self._state.alarms)
        try:
            fold = self._book.fold_again if self._folds_again else self._book.fold
            self._folds_again = not fold(keeping)
        except MissingExtraError as error:
            logger.debug("%s", error)
            return
        self._tell_alarms(self._state.alarms.open_alarms())

    def _tell_alarms(self, standing: Sequence[Alarm]) -> None:
        counts = Counter(one.kind for one in standing)
        self._dispatcher.metrics.drift_alarms({kind: counts[kind] for kind in KINDS})

    def _ask_again(self, keeping: Keeping) -> None:
        """Ask another version that serves by now about the newest observations."""
        version = self._comparison.answerer.version
        if self._now_version == version:
            return
        some = self._state.residuals.outdated(version, among=NEWEST, limit=AT_ONCE)
        self._let_others_first()
        self._state.residuals.set_now(keeping, version, self._comparison.predicted_now(some))
        if len(some) < AT_ONCE:
            self._now_version = version

    def _let_others_first(self) -> None:
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < self._longest_wait_s() and not self._ended.is_set():
            self._ended.wait(_LOOK_S)

    def _longest_wait_s(self) -> float:
        if self._dispatcher.threads.count:
            return _LONGEST_WAIT_S
        return _BESIDE_LOOP_S if self._dispatcher.loop_answers.count else 0.0
