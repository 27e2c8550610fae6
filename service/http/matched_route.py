"""What stands for a route where requests are counted that are answered before all routes."""

from __future__ import annotations


class MatchedRoute:
    """A route by its path alone."""

    def __init__(self, path: str) -> None:
        self.path = path
