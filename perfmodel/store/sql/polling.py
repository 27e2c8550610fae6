"""Look at the database from time to time, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from perfmodel.errors import StoreError

logger = logging.getLogger(__name__)


def poll_until(
    ended: threading.Event, poll: Callable[[], object], *, every_s: float, complaint: str
) -> None:
    """Look again and again until the end.

    Parameters
    ----------
    poll : callable
        Looks once; :class:`~perfmodel.errors.StoreError` where the database is away.
    complaint : str
        What cannot be done without the database; it is logged once each time that this is away.
    """
    lost = False
    while not ended.wait(every_s):
        try:
            poll()
            lost = False
        except StoreError as error:
            if not lost:
                logger.warning("%s: %s", complaint, error)
            lost = True
        except Exception:
            # One that cannot follow must not keep the others from following.
            logger.exception("a change could not be followed")
