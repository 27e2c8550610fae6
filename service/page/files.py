"""The files of the page: read once, named by what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

#: Where the page lies.
FOLDER = Path(__file__).parent

_INDEX = "index.html"
#: Stands in the index for the version of all files.
_VERSION = b"VERSION"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, kw_only=True)
class PageFile:
    """A file as it is sent."""

    body: bytes
    media_type: str


@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """All that a browser needs to show the page.

    Parameters
    ----------
    index : bytes
        HTML that names its files under ``static/<version>/``.
    version : str
        Hash of all files, so that a browser may keep what it has for good.
    files : mapping of str to PageFile
        By path below the version.
    """

    index: bytes
    version: str
    files: Mapping[str, PageFile]


def read_page(folder: Path = FOLDER) -> PageFiles:
    """Read the page.

    Parameters
    ----------
    folder : Path
        With ``index.html`` and what it names; files of other kinds are left alone.
    """
    files = {
        path.relative_to(folder).as_posix(): PageFile(
            body=path.read_bytes(), media_type=_MEDIA_TYPES[path.suffix]
        )
        for path in sorted(folder.rglob("*"))
        if path.suffix in _MEDIA_TYPES
    }
    index = (folder / _INDEX).read_bytes()
    digest = hashlib.blake2b(index, digest_size=8)
    for name, file in files.items():
        digest.update(name.encode() + b"\0" + file.body)
    version = digest.hexdigest()
    return PageFiles(
        index=index.replace(_VERSION, version.encode()),
        version=version,
        files=MappingProxyType(files),
    )
