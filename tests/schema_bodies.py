"""Random JSON from a JSON schema, some of it as described, some of it spoilt."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

#: What a careless or hostile caller puts anywhere.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**24, 2**63, -(2**70), 1e308, -0.0, 1e-320, 0.5, "", " ", "0",
    "\x00", "\ud83d", "A100-SXM4-80GB", "8xT4", "-1xT4", "9" * 400, "../../etc/passwd",
    "x" * 5_000, [], [[]], [None], {}, {"": 0}, {"nodes": [{"accelerator": "T4"}]}, [1] * 300,
)  # fmt: skip

_WORDS = ("T4", "timm/resnet50", "8xT4", "analytical", "key", "2x(4xT4)@ib-400g")
_DEEPEST = 5


class Bodies:
    """Makes bodies of one schema.

    Parameters
    ----------
    schema : mapping
        May refer to ``#/components/schemas/...``.
    schemas : mapping
        What it refers to.
    chance : random.Random
    plausible : mapping of str to sequence
        Values of properties by their name, where the schema alone says too little to be understood;
        an empty one leaves the property out.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        schemas: Mapping[str, Any],
        chance: random.Random,
        plausible: Mapping[str, Sequence[Any]],
    ) -> None:
        self._plausible = plausible
        self._schema = schema
        self._schemas = schemas
        self._chance = chance

    def described(self) -> Any:
        """Return a body as the schema describes it (patterns and some bounds left out)."""
        return self._of(self._schema, 0)

    def spoilt(self, body: Any) -> Any:
        """Return a copy of a body with some of its parts replaced, removed, added or doubled."""
        spoilt = copy.deepcopy(body)
        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
            places = list(_places(spoilt))
            if not places:
                return self._chance.choice(ODD)
            self._spoil(*self._chance.choice(places))
        return spoilt

    def _spoil(self, holder: Any, at: Any) -> None:
        how = self._chance.random()
        if how < 0.6:
            holder[at] = copy.deepcopy(self._chance.choice(ODD))
        elif how < 0.75:
            del holder[at]
        elif isinstance(holder, dict):
            holder[f"{at}_"] = holder[at]
        else:
            holder.append(holder[at])

    def _of(self, schema: Mapping[str, Any], depth: int) -> Any:
        if "$ref" in schema:
            return self._of(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._of(self._chance.choice(schema[word]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._chance.choice(kind)
        make = getattr(self, f"_{kind}", None)
        return self._chance.choice(ODD) if make is None else make(schema, depth)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        needed = schema.get("required", ())
        made = {
            name: self._property(name, inner, depth)
            for name, inner in schema.get("properties", {}).items()
            if self._plausible.get(name, (0,))
            and (name in needed or (depth < _DEEPEST and self._chance.random() < 0.3))
        }
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            made[self._chance.choice(_WORDS)] = self._of(others, depth + 1)
        return made

    def _property(self, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        if name in self._plausible:
            return copy.deepcopy(self._chance.choice(self._plausible[name]))
        return self._of(schema, depth + 1)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        most = 1 if depth >= _DEEPEST else 3
        count = self._chance.randint(
            schema.get("minItems", 0), max(most, schema.get("minItems", 0))
        )
        return [self._of(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _integer(self, schema: Mapping[str, Any], depth: int) -> int:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        high = schema.get("maximum", 2**31)
        return self._chance.choice([low, min(low + 1, high), min(64, high), high])

    def _number(self, schema: Mapping[str, Any], depth: int) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0.0) + 1e-9)
        return self._chance.choice([float(low), min(1.0, schema.get("maximum", 1.0)), 1e12])

    def _string(self, schema: Mapping[str, Any], depth: int) -> str:
        return self._chance.choice(_WORDS)

    def _boolean(self, schema: Mapping[str, Any], depth: int) -> bool:
        return self._chance.random() < 0.5

    def _null(self, schema: Mapping[str, Any], depth: int) -> None:
        return None


def _places(body: Any) -> Any:
    """Yield every part of a body as what holds it and where."""
    parts = body.items() if isinstance(body, dict) else enumerate(body)
    if isinstance(body, dict | list):
        for at, part in list(parts):
            yield body, at
            if isinstance(part, dict | list):
                yield from _places(part)
