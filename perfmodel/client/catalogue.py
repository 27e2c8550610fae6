"""What the service knows and says of itself, as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.client.answers import Accuracy, AccuracyPoint
from perfmodel.client.protocol.messages import Call, Page, listing, quoted, removal
from perfmodel.client.records import (
    Accelerator,
    Accelerators,
    Alias,
    Collection,
    Health,
    ModelDifferences,
    Models,
    ModelVersion,
    Price,
    Prices,
    Promotion,
    Reload,
)


def accelerators() -> Call[Accelerators]:
    """List the catalogue; each name and alias can stand in a placement."""
    return Call(method="GET", path="/v1/accelerators", kind=Accelerators, tagged=True, large=True)


def accelerator(name: str) -> Call[Accelerator]:
    """Return the facts of an accelerator, by any of its names."""
    return Call(method="GET", path=f"/v1/accelerators/{quoted(name)}", kind=Accelerator)


def put_accelerator(name: str, facts: Mapping[str, Any]) -> Call[Accelerator]:
    """Add an accelerator to the catalogue, or change one that was added.

    Its facts are in SI units, as ``docs/devices.md`` names them.
    """
    path = f"/v1/accelerators/{quoted(name)}"
    return Call(method="PUT", path=path, kind=Accelerator, body=dict(facts))


def remove_accelerator(name: str) -> Call[bool]:
    """Remove an accelerator that was added; tells whether there was one."""
    return removal(f"/v1/accelerators/{quoted(name)}")


def put_alias(name: str, alias: str) -> Call[Alias]:
    """Let another name mean an accelerator."""
    path = f"/v1/accelerators/{quoted(name)}/aliases/{quoted(alias)}"
    return Call(method="PUT", path=path, kind=Alias)


def remove_alias(name: str, alias: str) -> Call[bool]:
    """Take a name away that was added; tells whether there was one."""
    return removal(f"/v1/accelerators/{quoted(name)}/aliases/{quoted(alias)}")


def prices() -> Call[Prices]:
    """List what an hour of each accelerator costs."""
    return Call(method="GET", path="/v1/prices", kind=Prices, tagged=True, large=True)


def set_price(accelerator: str, per_hour: float, *, currency: str = "USD") -> Call[Price]:
    """Set what an hour of an accelerator costs; rankings by cost use it."""
    return Call(
        method="PUT",
        path=f"/v1/prices/{quoted(accelerator)}",
        kind=Price,
        body={"per_hour": per_hour, "currency": currency},
    )


def remove_price(accelerator: str) -> Call[bool]:
    """Forget the price of an accelerator; tells whether there was one."""
    return removal(f"/v1/prices/{quoted(accelerator)}")


def models() -> Call[Models]:
    """List the trained models, which of them answers, and the damaged ones."""
    return Call(method="GET", path="/v1/models", kind=Models, tagged=True, large=True)


def reload_models() -> Call[Reload]:
    """Let the best version in the folder of models serve now."""
    return Call(method="POST", path="/v1/models/reload", kind=Reload)


def model(version: str) -> Call[ModelVersion]:
    """Return a version, ``"<name>/<version>"``, with its manifest and what became of it."""
    return Call(method="GET", path=_model(version), kind=ModelVersion, tagged=True, large=True)


def model_differences(version: str, *, against: str | None = None) -> Call[ModelDifferences]:
    """Tell how a version differs from another; from the one that serves by default."""
    query = {"against": against}
    return Call(
        method="GET", path=f"{_model(version)}/diff", kind=ModelDifferences, query=query, large=True
    )


def promote_model(version: str, *, why: str = "", force: bool = False) -> Call[Promotion]:
    """Let a version serve, on every worker and host; ``force`` even if it was refused."""
    query = {"why": why or None, "force": "true" if force else None}
    return Call(method="POST", path=f"{_model(version)}/promote", kind=Promotion, query=query)


def rollback_model(name: str = "default", *, why: str = "") -> Call[Promotion]:
    """Let the version of a model serve that did before."""
    path = f"/v1/models/{quoted(name)}/rollback"
    return Call(method="POST", path=path, kind=Promotion, query={"why": why or None})


def collect_models(
    name: str = "default", *, keep: int = 5, pinned_days: float = 7.0, why: str = ""
) -> Call[Collection]:
    """Delete retired versions of a model but for the newest."""
    query = {"keep": keep, "pinned_days": pinned_days, "why": why or None}
    path = f"/v1/models/{quoted(name)}/collect"
    return Call(method="POST", path=path, kind=Collection, query=query)


def _model(version: str) -> str:
    name, slash, number = version.rpartition("/")
    return f"/v1/models/{quoted(name if slash else 'default')}/{quoted(number)}"


def accuracy(
    *, accelerator: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[Accuracy]:
    """Ask how predictions compare with what was observed, newest first; one page, summed up."""
    query = {"accelerator": accelerator, "limit": limit, "cursor": cursor}
    return Call(method="GET", path="/v1/accuracy", kind=Accuracy, query=query, large=True)


def accuracy_points(
    *, accelerator: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[Page[AccuracyPoint]]:
    """List predictions beside what was observed, newest first, ``limit`` at a time."""
    query = {"accelerator": accelerator, "limit": limit, "cursor": cursor}
    return listing("/v1/accuracy", AccuracyPoint, "points", query)


def health() -> Call[Health]:
    """Ask whether the service is ready; needs no key."""
    return Call(method="GET", path="/v2/health/ready", kind=Health)
