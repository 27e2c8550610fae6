"""``GET /``: the page, and its files under ``/static``, read once and named by what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from fastapi import APIRouter, Request, Response

from service.http.bodies import etagged_response
from service.http.errors import not_found

router = APIRouter()

#: Nothing but what this service sends runs or is asked; no script or style stands in the HTML.
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # The address of the page holds the question.
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

#: Where the page lies.
FOLDER = Path(__file__).parents[1] / "page"

_INDEX = "index.html"
#: Stands in the index for the version of all files.
_VERSION = b"VERSION"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_FOR_GOOD = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


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


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """Answer the page; it changes with the version of the service only."""
    index = _page().index
    return _tagged(request, index, "text/html; charset=utf-8", _ASK_AGAIN)


@router.get("/favicon.ico", include_in_schema=False)
async def icon(request: Request) -> Response:
    """Answer the icon that browsers ask for beside ``/docs``."""
    file = _page().files["favicon.svg"]
    return _tagged(request, file.body, file.media_type, _ASK_AGAIN)


@router.get("/static/{version}/{name:path}", include_in_schema=False)
async def static(request: Request, version: str, name: str) -> Response:
    """Answer a file of the page; with the version that is here, a browser may keep it for good.

    Another version is that of another host while an update goes on: it gets what is here.
    """
    found = _page()
    file = found.files.get(name)
    if file is None:
        raise not_found()
    kept = _FOR_GOOD if version == found.version else _ASK_AGAIN
    return _tagged(request, file.body, file.media_type, kept)


@lru_cache(maxsize=1)
def _page() -> PageFiles:
    return read_page()


def _tagged(request: Request, body: bytes, media_type: str, cache_control: str) -> Response:
    headers = {"cache-control": cache_control, **SECURITY_HEADERS}
    return etagged_response(request, body, media_type=media_type, headers=headers)


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
