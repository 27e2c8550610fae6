"""Accelerators and names for them that the operator of the service adds to the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, select

from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore, put_row, raise_revision
from perfmodel.store.sql.tables import ACCELERATORS, ALIASES, PRICES
from perfmodel.store.state.prices import REVISION as PRICES_REVISION

#: Name of the counter that each change raises.
REVISION = "accelerators"


@dataclass(frozen=True, kw_only=True)
class OwnAccelerators:
    """What an operator added.

    Parameters
    ----------
    devices : dict of str to str
        Facts as JSON by name, in the order of the names.
    aliases : dict of str to str
        Canonical name of any device by alias, in the order of the aliases.
    """

    devices: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything was added."""
        return bool(self.devices or self.aliases)


#: Raises an error where what would stand cannot be.
Check = Callable[[OwnAccelerators], object]


class AcceleratorStore(SharedStore):
    """Keeps own accelerators and aliases.

    What a change would leave is checked while no other host can change anything: of two hosts that
    give one name to different devices the second is refused.
    """

    def all(self) -> OwnAccelerators:
        """Return what was added."""
        with self._connections.reading() as connection:
            return _read(connection)

    def put(self, name: str, content: str, check: Check) -> bool:
        """Keep a device, in place of its namesake.

        Parameters
        ----------
        check : callable
            Gets what would stand; what it raises stops the change.

        Returns
        -------
        bool
            Whether it is new.
        """
        with self._changing(REVISION) as connection:
            before = _read(connection)
            check(
                OwnAccelerators(devices={**before.devices, name: content}, aliases=before.aliases)
            )
            values = {"name": name, "content": content, "updated_at": now()}
            put_row(connection, ACCELERATORS, "name", values)
        return name not in before.devices

    def remove(self, name: str) -> bool:
        """Forget a device with its aliases and its price; False without it."""
        with self._changing(REVISION) as connection:
            gone = connection.execute(delete(ACCELERATORS).where(ACCELERATORS.c.name == name))
            if gone.rowcount:
                connection.execute(delete(ALIASES).where(ALIASES.c.accelerator == name))
                raise_revision(connection, PRICES_REVISION)
                connection.execute(delete(PRICES).where(PRICES.c.accelerator == name))
        return gone.rowcount > 0

    def put_alias(self, alias: str, name: str, check: Check) -> bool:
        """Let an alias mean a device; whatever it meant before."""
        with self._changing(REVISION) as connection:
            before = _read(connection)
            check(OwnAccelerators(devices=before.devices, aliases={**before.aliases, alias: name}))
            values = {"alias": alias, "accelerator": name, "updated_at": now()}
            put_row(connection, ALIASES, "alias", values)
        return alias not in before.aliases

    def remove_alias(self, alias: str, name: str) -> bool:
        """Forget an alias of a device; False without it."""
        with self._changing(REVISION) as connection:
            gone = connection.execute(
                delete(ALIASES).where(ALIASES.c.alias == alias, ALIASES.c.accelerator == name)
            )
        return gone.rowcount > 0


def _read(connection: Connection) -> OwnAccelerators:
    devices = connection.execute(select(ACCELERATORS.c.name, ACCELERATORS.c.content)).all()
    aliases = connection.execute(select(ALIASES.c.alias, ALIASES.c.accelerator)).all()
    # Databases order texts each in its own way.
    return OwnAccelerators(
        devices={row.name: row.content for row in sorted(devices, key=lambda row: row.name)},
        aliases={row.alias: row.accelerator for row in sorted(aliases, key=lambda row: row.alias)},
    )
