"""What the service knows and says of itself, as calls."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.client.messages import Call
from perfmodel.client.records import Accelerator, Health, Models, Price


@dataclass(frozen=True, kw_only=True)
class Accelerators:
    """Every accelerator of the catalogue."""

    accelerators: tuple[Accelerator, ...]

    def named(self, name: str) -> Accelerator | None:
        """Return an accelerator by its name or one of its aliases, in whatever case."""
        folded = name.casefold()
        return next(
            (
                one
                for one in self.accelerators
                if folded in (one.name.casefold(), *(alias.casefold() for alias in one.aliases))
            ),
            None,
        )


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices that were set."""

    prices: tuple[Price, ...]


def accelerators() -> Call[Accelerators]:
    """List the catalogue; each name and alias can stand in a placement."""
    return Call(method="GET", path="/v1/accelerators", kind=Accelerators, tagged=True, large=True)


def prices() -> Call[Prices]:
    """List what an hour of each accelerator costs."""
    return Call(method="GET", path="/v1/prices", kind=Prices, tagged=True, large=True)


def models() -> Call[Models]:
    """List the trained models, which of them answers, and the damaged ones."""
    return Call(method="GET", path="/v1/models", kind=Models, tagged=True, large=True)


def health() -> Call[Health]:
    """Ask whether the service is ready; needs no key."""
    return Call(method="GET", path="/v2/health/ready", kind=Health)
