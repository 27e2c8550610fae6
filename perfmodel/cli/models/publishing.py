"""Where a command puts the version that it has made, and whether that serves now."""

from __future__ import annotations

import getpass
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import store_options

if TYPE_CHECKING:
    from perfmodel.registry.model_registry import ModelRegistry


#: Adds ``--why`` to a command that changes a state.
why_option = click.option("--why", default="", help="The reason, kept with the change.")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A version that was made.

    Parameters
    ----------
    place : str
        Its folder, or its URL.
    version : str
        ``"<name>/<version>"``.
    serves : bool
        Whether the registry lets it answer from now on.
    """

    place: str
    version: str
    serves: bool

    @property
    def sentences(self) -> str:
        """Say where it is and what to do next."""
        if self.serves:
            return f"The model is in {self.place}; it serves."
        return (
            f"The model is in {self.place}. It is a candidate: `perfmodel models promote "
            f"{self.version}` lets it serve."
        )


def open_registry(models: str) -> ModelRegistry:
    """Open the registry at a folder or URL, for changes by whoever runs the command."""
    from perfmodel.registry.file_store import open_store
    from perfmodel.registry.model_registry import ModelRegistry

    by = f"user {getpass.getuser()} on {socket.gethostname()}"
    return ModelRegistry(open_store(models, store_options()), by=by)


def publish(models: str, write: Callable[[Path], Path], *, why: str) -> Published:
    """Write a version into a local folder of models, or by way of one to a URL.

    Parameters
    ----------
    models : str
        A folder or a URL.
    write : callable
        Gets a folder of models; returns the folder of the version in it.
    """
    registry = open_registry(models)
    if "://" not in models:
        folder = write(Path(models))
        place, name, version = str(folder), folder.parent.name, folder.name
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write(Path(temporary))
            name = folder.parent.name
            version = registry.publish(folder, name, why=why)
        place = f"{registry.files.place.rstrip('/')}/{name}/{version}"
    serves = registry.serving(name) == version
    return Published(place=place, version=f"{name}/{version}", serves=serves)
