"""``GET /``: the page, and its files under ``/static``."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from service.http.errors import not_found
from service.http.etag import etag_of, matches
from service.page.files import PageFiles, read_page

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

_FOR_GOOD = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page(request: Request) -> Response:
    """Answer the page; it changes with the version of the service only."""
    index = _page().index
    return _tagged(request, index, "text/html; charset=utf-8", _ASK_AGAIN)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"], include_in_schema=False)
async def icon(request: Request) -> Response:
    """Answer the icon that browsers ask for beside ``/docs``."""
    file = _page().files["favicon.svg"]
    return _tagged(request, file.body, file.media_type, _ASK_AGAIN)


@router.api_route("/static/{version}/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
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
    tag = etag_of(body)
    headers = {"etag": tag, "cache-control": cache_control, **SECURITY_HEADERS}
    if matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
