"""Which scope each route asks for; a route that is not listed here is for administrators only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Scope(StrEnum):
    """What a key may do.

    ``admin`` may do everything; the other two do not include one another.
    """

    PREDICT = "predict"
    OBSERVE = "observe"
    ADMIN = "admin"


class Unscoped(StrEnum):
    """What stands where no scope does."""

    OPEN = "open"
    """Answered without a key: tells nothing but that the service runs, or shows its page."""
    UNLISTED = "unlisted"
    """No rule speaks of it: closed to all but administrators, if it exists at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One line of the table: methods on a path and on all below it.

    Parameters
    ----------
    path : str
        Without a slash at its end, the root page apart.
    exact : bool
        Holds for the path itself, not for what is below it.
    audited : bool
        What is changed is kept in the audit log, whoever may change it; that of administrators
        always is.
    """

    methods: frozenset[str]
    path: str
    needs: Scope | Unscoped
    exact: bool = False
    audited: bool = False


_READ = frozenset({"GET", "HEAD"})
_ASK = frozenset({"GET", "HEAD", "POST"})
_WRITE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _rule(
    methods: frozenset[str],
    path: str,
    needs: Scope | Unscoped,
    *,
    exact: bool = False,
    audited: bool = False,
) -> Rule:
    return Rule(methods=methods, path=path, needs=needs, exact=exact, audited=audited)


#: The first rule that speaks of a request decides.
RULES: tuple[Rule, ...] = (
    _rule(_READ, "/v2/health/live", Unscoped.OPEN, exact=True),
    _rule(_READ, "/v2/health/ready", Unscoped.OPEN, exact=True),
    _rule(_READ, "/metrics", Scope.OBSERVE, exact=True),
    _rule(_ASK, "/v1/observations", Scope.OBSERVE),
    # Whose observations they are, the route finds out.
    _rule(_WRITE, "/v1/observations", Scope.OBSERVE, audited=True),
    _rule(_READ, "/v1/accuracy", Scope.OBSERVE, exact=True),
    _rule(_READ, "/v1/operations", Scope.PREDICT),
    # Whose operation it is, the route finds out.
    _rule(_WRITE, "/v1/operations", Scope.PREDICT),
    _rule(_READ, "/v1/accelerators", Scope.PREDICT),
    _rule(_WRITE, "/v1/accelerators", Scope.ADMIN),
    _rule(_READ, "/v1/prices", Scope.PREDICT),
    _rule(_WRITE, "/v1/prices", Scope.ADMIN),
    # A campaign names the jobs that it measures, also of others, and keeps accelerators busy.
    _rule(_READ, "/v1/campaigns", Scope.ADMIN),
    _rule(_WRITE, "/v1/campaigns", Scope.ADMIN),
    # What a retraining says names jobs and reporters, and it decides what everybody is answered.
    _rule(_READ, "/v1/retrain", Scope.ADMIN),
    _rule(_WRITE, "/v1/retrain", Scope.ADMIN),
    _rule(_READ, "/v1/drift", Scope.PREDICT),
    _rule(_WRITE, "/v1/drift", Scope.ADMIN),
    _rule(_READ, "/v1/models", Scope.PREDICT),
    _rule(_WRITE, "/v1/models", Scope.ADMIN),
    # Questions and what they are about. Registering a job or a graph is part of asking.
    _rule(_ASK, "/v1/predict", Scope.PREDICT),
    _rule(_ASK, "/v1/matrix", Scope.PREDICT),
    _rule(_ASK, "/v1/curve", Scope.PREDICT),
    _rule(_ASK, "/v1/placements", Scope.PREDICT),
    _rule(_ASK, "/v1/rank", Scope.PREDICT),
    _rule(_ASK, "/v1/explain", Scope.PREDICT),
    _rule(_ASK, "/v1/kernels", Scope.PREDICT),
    _rule(_ASK, "/v1/jobs", Scope.PREDICT),
    _rule(_ASK, "/v1/graphs", Scope.PREDICT),
    # Whose graph it is, the route finds out.
    _rule(_WRITE, "/v1/graphs", Scope.PREDICT, audited=True),
    # The dialects of schedulers; what they send besides questions is what a question is about.
    _rule(_ASK, "/v2", Scope.PREDICT),
    _rule(_ASK, "/kubernetes", Scope.PREDICT),
    _rule(_ASK, "/v1/adapters", Scope.PREDICT),
    # The page is the same for everybody; it asks for a key when it asks something.
    _rule(_READ, "/", Unscoped.OPEN, exact=True),
    _rule(_READ, "/static", Unscoped.OPEN),
    _rule(_READ, "/favicon.ico", Unscoped.OPEN, exact=True),
    # What describes the interface.
    _rule(_READ, "/docs", Scope.PREDICT),
    _rule(_READ, "/redoc", Scope.PREDICT, exact=True),
    _rule(_READ, "/openapi.json", Scope.PREDICT, exact=True),
)


_UNLISTED = _rule(frozenset(), "", Unscoped.UNLISTED)


@lru_cache(maxsize=1024)
def rule_of(method: str, path: str) -> Rule:
    """Return what holds for a request.

    Examples
    --------
    >>> [rule_of("POST", path).needs.value for path in ("/v1/predict", "/v1/prices", "/nowhere")]
    ['predict', 'admin', 'unlisted']
    >>> [rule_of(method, "/v1/observations").audited for method in ("DELETE", "POST")]
    [True, False]
    """
    for rule in RULES:
        is_there = path == rule.path or (not rule.exact and path.startswith(f"{rule.path}/"))
        if is_there and method in rule.methods:
            return rule
    return _UNLISTED
