"""Models of pydantic from the dataclasses that the client reads answers into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import reduce
from inspect import getdoc
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

#: What an answer of which every field is described is held to.
EXACT = ConfigDict(extra="forbid", allow_inf_nan=False)

#: Models by what they describe; what is nested is made before what holds it.
_MODELS: dict[Any, Any] = {}


def model_of(
    kind: Any,
    name: str,
    *,
    config: ConfigDict | None = EXACT,
    summary: str | None = None,
    without: tuple[str, ...] = (),
) -> type[BaseModel]:
    """Return the model of an answer, as the service sends it: with every field.

    Parameters
    ----------
    kind : type
        A dataclass of the client. In ``Annotated`` a text describes a field, a tuple lists the
        words it may say, and a dictionary has its bounds.
    name : str
        Of the schema.
    summary : str or None
        What it is; None: the first paragraph of the docstring.
    without : tuple of str
        Fields that are not described.
    """
    fields: dict[str, Any] = {
        field: (_described(hint), ...)
        for field, hint in get_type_hints(kind, include_extras=True).items()
        if field not in without
    }
    doc = summary or (getdoc(kind) or "").partition("\n\n")[0]
    made: type[BaseModel] = create_model(name, __config__=config, __doc__=doc, **fields)
    _MODELS.setdefault(kind, made)
    return made


def stands_for(kind: Any, model: type[BaseModel]) -> None:
    """Let a model of its own describe what an answer holds."""
    _MODELS[kind] = model


def page_of(
    entry: type[BaseModel], name: str, items: str, *, what: str | None = None
) -> type[BaseModel]:
    """Return the model of some items of a list.

    Parameters
    ----------
    items : str
        The field that holds them.
    what : str or None
        How they are called, where they are called otherwise.
    """
    cursor = Field(description=f"Asks for the {items} after these.")
    fields: dict[str, Any] = {
        items: (list[entry], ...),  # type: ignore[valid-type]
        "next_cursor": (Annotated[str | None, cursor], ...),
    }
    doc = f"Some {what or items}, newest first."
    return create_model(name, __config__=EXACT, __doc__=doc, **fields)


def _described(hint: Any) -> Any:
    """Return what pydantic calls a type of the client."""
    if isinstance(hint, type) and hint in _MODELS:
        return _MODELS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin is tuple:
        return list[_described(inner[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, _described(inner[1])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return reduce(or_, map(_described, inner))
    assert not is_dataclass(hint), f"{hint} has no model yet"
    return hint


def _annotated(hint: Any, notes: tuple[Any, ...]) -> Any:
    described = _described(hint)
    for note in notes:
        if isinstance(note, tuple):
            described = Literal[note]
        else:
            facts = {"description": note} if isinstance(note, str) else note
            described = Annotated[described, Field(**facts)]
    return described
