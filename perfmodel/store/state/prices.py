"""What an hour of an accelerator costs, as the operator of the service says."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import delete, select

from perfmodel.client.records import Price
from perfmodel.store.sql.connections import Connections, now
from perfmodel.store.sql.shared_store import SharedStore, put_row, record_from
from perfmodel.store.sql.tables import PRICES

#: Name of the counter that each change raises.
REVISION = "prices"


class PriceStore(SharedStore):
    """Keeps prices."""

    def put(self, price: Price) -> None:
        """Set a price; the one before it is forgotten."""
        with self._changing(REVISION) as connection:
            put_row(connection, PRICES, "accelerator", {**asdict(price), "updated_at": now()})

    def remove(self, accelerator: str) -> bool:
        """Forget a price; False where there is none."""
        with self._changing(REVISION) as connection:
            gone = connection.execute(delete(PRICES).where(PRICES.c.accelerator == accelerator))
        return gone.rowcount > 0

    def all(self) -> dict[str, Price]:
        """Return every price by the name of its accelerator, in the order of the names."""
        rows = self._rows(select(PRICES))
        prices = {row.accelerator: record_from(Price, row) for row in rows}
        # Databases order texts each in its own way.
        return dict(sorted(prices.items()))


class RememberedPrices(PriceStore):
    """Prices with a copy in memory, from which they are read: answers wait for no database."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._known: dict[str, Price] | None = None

    def put(self, price: Price) -> None:
        """Set a price; the one before it is forgotten."""
        super().put(price)
        self.refresh()

    def remove(self, accelerator: str) -> bool:
        """Forget a price; False where there is none."""
        was_there = super().remove(accelerator)
        self.refresh()
        return was_there

    def all(self) -> dict[str, Price]:
        """Return every price by the name of its accelerator, as it was read last."""
        return self.refresh() if self._known is None else self._known

    def refresh(self) -> dict[str, Price]:
        """Read the prices again."""
        self._known = super().all()
        return self._known
