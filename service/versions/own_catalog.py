"""The accelerators that an operator adds: kept for all hosts, followed by each."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, cast

import orjson
from fastapi import Request

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict, spec_to_dict, stated_spec
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, TakenNameError
from perfmodel.placement.topology.links import check_link_name
from perfmodel.store.state.accelerators import REVISION, OwnAccelerators
from service.state.state import State
from service.versions.loaded_versions import LoadedVersions

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+:()-]{0,99}")


class OwnCatalog:
    """Changes the catalogue, here and on every host that shares the database."""

    def __init__(self, state: State, versions: LoadedVersions) -> None:
        self._store = state.own
        self._prices = state.prices
        self._versions = versions
        state.watch.on_change(REVISION, self.refresh)
        # Answers count on what was added from the first one on.
        self.refresh()

    @property
    def catalog(self) -> Catalog:
        """The catalogue that answers rest on now."""
        return self._versions.serving.estimator.accelerators

    def refresh(self) -> None:
        """Follow what was changed, by whomever."""
        found = self._store.all()
        self._versions.use_accelerators(lambda catalog: _followed(catalog, found))

    def put(self, name: str, facts: Any) -> tuple[AcceleratorSpec, bool]:
        """Add a device, or change one that was added.

        Parameters
        ----------
        facts : object
            Decoded JSON, as ``docs/devices.md`` describes it.

        Returns
        -------
        tuple of AcceleratorSpec and bool
            The device, and whether it is new.

        Raises
        ------
        InvalidInputError
            What is wrong with it.
        TakenNameError
            The name means something else.
        """
        spec = _device(name, facts)
        created = self._store.put(name, orjson.dumps(spec_to_dict(spec)).decode(), self._check)
        self.refresh()
        return spec, created

    def remove(self, name: str) -> bool:
        """Take a device away that was added, with its aliases and its price; False without it."""
        _refuse_shipped(self.catalog, name)
        removed = self._store.remove(name)
        self._prices.refresh()
        self.refresh()
        return removed

    def put_alias(self, name: str, alias: str) -> tuple[str, bool]:
        """Let an alias mean a device.

        Returns
        -------
        tuple of str and bool
            The name of the device in the catalogue, and whether the alias is new.
        """
        # What this machine is called here it is nowhere else.
        canonical = self.named(name, local=False)
        _check_name(alias)
        created = self._store.put_alias(alias, canonical, self._check)
        self.refresh()
        return canonical, created

    def remove_alias(self, name: str, alias: str) -> bool:
        """Take an alias away that was added; False without it."""
        canonical = self.named(name, local=False)
        _refuse_shipped(self.catalog, alias)
        removed = self._store.remove_alias(alias, canonical)
        self.refresh()
        return removed

    def named(self, name: str, *, local: bool = True) -> str:
        """Return what a device is called in the catalogue, one included that was just added.

        Another process may have added it, and what others change is seen from time to time only.

        Parameters
        ----------
        local : bool
            Whether it may be this machine; finding out what that is may measure it.
        """
        if name not in self.catalog:
            self.refresh()
        return (self.catalog if local else self.catalog.with_local(None)).get(name).name

    def _check(self, found: OwnAccelerators) -> None:
        self.catalog.with_own(*_read(found, _refuse))


def own_catalog_of(request: Request) -> OwnCatalog:
    """Return the catalogue of the application that a request came to."""
    return cast(OwnCatalog, request.app.state.own_catalog)


def _refuse(name: str, error: InvalidInputError) -> None:
    raise error


def _pass_over(name: str, error: InvalidInputError) -> None:
    logger.warning("the accelerator %r is passed over: %s", name, error)


def _followed(catalog: Catalog, found: OwnAccelerators) -> Catalog:
    specs, aliases = _read(found, _pass_over)
    followed = catalog.with_own_if_free(specs, aliases)
    own, names = followed.own()
    missing = len(found.devices) - len(own) + len(found.aliases) - len(names)
    if missing:
        logger.warning("%d accelerators or aliases that were added are taken by now", missing)
    return followed


def _read(
    found: OwnAccelerators, on_error: Callable[[str, InvalidInputError], None]
) -> tuple[list[AcceleratorSpec], dict[str, str]]:
    specs = []
    for name, content in found.devices.items():
        try:
            specs.append(spec_from_dict(orjson.loads(content)))
        except InvalidInputError as error:
            on_error(name, error)
    return specs, found.aliases


def _device(name: str, facts: Any) -> AcceleratorSpec:
    _check_name(name)
    if not isinstance(facts, dict):
        raise InvalidInputError("An accelerator is an object of facts; docs/devices.md names them.")
    if facts.get("name", name) != name:
        raise InvalidInputError(
            f"The body names {facts['name']!r} and the path {name!r}. Leave the name out of the "
            "body.",
            pointer="/name",
        )
    spec = stated_spec({"sources": {"*": "operator"}, **facts, "name": name})
    if spec.link is not None:
        check_link_name(spec.link, pointer="/link")
    return spec


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"The name {name[:110]!r} must be 1 to 100 letters, digits, spaces or '._+:()-', a "
            "letter or digit first."
        )


def _refuse_shipped(catalog: Catalog, name: str) -> None:
    if name in catalog.shipped:
        raise TakenNameError(
            f"{name!r} is part of the catalogue that is shipped, which stays as it is."
        )
