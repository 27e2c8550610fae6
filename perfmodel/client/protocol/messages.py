"""What travels: requests and replies as values, calls that make the one and read the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from perfmodel.client.protocol.decode import reader

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JSON_MEDIA_TYPE = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request of HTTP; the query stands in its URL."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One whole reply: names of headers in lower case, the content still compressed if it was."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Send:
    """Asks whoever drives a flow to exchange a request for a whole reply in time."""

    request: Request
    timeout_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Asks whoever drives a flow to let time pass."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A question to the service and how its answer is read.

    Parameters
    ----------
    path : str
        Below the URL of the service, quoted.
    kind : type
        What the JSON is read as; see :func:`~perfmodel.client.protocol.decode.reader`.
    body : JSON value, bytes or None
        Bytes go out as they are.
    query : mapping
        None is left out.
    tagged : bool
        The answer carries an ``ETag``: it is kept, and not sent again as long as it holds.
    large : bool
        The answer may be long: it is asked for in compressed form.
    meaning : mapping of int to object
        Statuses that are an answer by themselves.
    headers : mapping of str to str
        Besides those that every request has.
    listed : str or None
        The answer is a :class:`Page`: the field with its items, each of ``kind``.
    """

    method: str
    path: str
    kind: Any
    body: Any = None
    media_type: str = JSON_MEDIA_TYPE
    query: Mapping[str, Any] = field(default_factory=dict)
    tagged: bool = False
    large: bool = False
    meaning: Mapping[int, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    listed: str | None = None

    def read(self, content: Any) -> T:
        """Return the answer that JSON stands for.

        Raises
        ------
        MisfitError
            It is another.
        """
        answer: T
        if self.listed is None:
            answer = reader(self.kind)(content)
        else:
            answer = _page(self.listed, self.kind, content)
        return answer

    def after(self, page: Page[Any]) -> Call[T] | None:
        """Return the call for what follows a page; None at the end."""
        if page.next_cursor is None:
            return None
        return replace(self, query={**self.query, "cursor": page.next_cursor})


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T_co]):
    """Some of a list; the cursor asks for those after these, None at the end."""

    items: tuple[T_co, ...]
    next_cursor: str | None = None


def _page(name: str, kind: Any, content: Any) -> Any:
    fields = reader(Mapping[str, Any])(content)
    return Page(
        items=reader(tuple[kind, ...])(fields.get(name)),
        next_cursor=reader(str | None)(fields.get("next_cursor", fields.get("next"))),
    )


def quoted(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def listing(path: str, kind: Any, listed: str, query: Mapping[str, Any]) -> Call[Any]:
    """Return the call for a page of a list."""
    return Call(method="GET", path=path, kind=kind, listed=listed, query=query, large=True)


def removal(path: str) -> Call[bool]:
    """Return the call that removes what a path names, and tells whether there was one."""
    return Call(method="DELETE", path=path, kind=bool, meaning={204: True, 404: False})


#: An answer in the making: yields what has to be done outside, returns the answer. The same flow
#: is driven by blocking calls and by coroutines, so that the protocol is written once.
Flow = Generator[Send | Wait, Reply | None, T]

#: Several calls that make one answer: yields calls, is sent their answers.
Task = Generator["Call[Any] | Wait", Any, T]

#: Answers in the place of a service that gave none: JSON as the service would have sent it, or
#: None where it has none either.
Fallback = Callable[["Call[Any]"], Any]
