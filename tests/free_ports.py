"""Ports for servers that have to be told theirs before they start."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a port that nobody listens on.

    It lies below those that the system hands out by itself, so that no connection of another test
    gets it before the server does.
    """
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a hundred ports are taken")
