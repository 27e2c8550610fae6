"""How a model is learned anew and judged: all that a retraining keeps in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_flag, as_number, as_object, shown
from perfmodel.predictors.registry import PREDICTORS
from perfmodel.training.gate.evidence import Margins

#: Settings of the joint predictor that may be stated.
JOINT_SETTINGS = ("epochs", "rounds", "folds")
#: The largest whole number that every reader of JSON gets as it was written.
_LARGEST = 2**53 - 1
_MARGINS = tuple(one.name for one in fields(Margins))


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrainSettings:
    """How a model is learned anew and judged.

    Parameters
    ----------
    without : tuple of str
        Sources that are left out: ``"timm"``, ``"profiles/T4"``, ``"campaigns/<name>"``,
        ``"observations/<reporter>"``; a name also stands for all that begin with it and a slash.
    without_damaged : bool
        Files that cannot be read are left out, and named; else they end the retraining.
    quick : bool
        The version that serves takes in what was measured since, without a fit and without public
        tables; ``members``, ``folds``, ``seed`` and ``joint`` mean nothing then.
    members : tuple of str
        Predictors that the ensemble mixes; empty: those of ``perfmodel train``.
    folds : int
        Groups of families that are left out in turn, >= 2.
    joint : mapping
        Settings of the joint predictor, those of :data:`JOINT_SETTINGS`.
    tune : int
        Trials in which the settings of each learner are searched; 0: they keep their own.
    promote : bool
        Let the version serve if it is judged good enough; else it stays a candidate.
    shadow : bool
        Let it answer beside the version that serves first.
    margins : mapping
        What the gate allows, where that is not what it always does; fields of
        :class:`~perfmodel.training.gate.evidence.Margins`.
    """

    without: tuple[str, ...] = ()
    without_damaged: bool = False
    quick: bool = False
    members: tuple[str, ...] = ()
    folds: int = 5
    seed: int = 0
    joint: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    tune: int = 0
    promote: bool = True
    shadow: bool = False
    margins: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON types; :func:`parse_settings` reads them."""
        return {
            **{name: getattr(self, name) for name in _FIELDS},
            "without": list(self.without),
            "members": list(self.members),
            "joint": dict(self.joint),
            "margins": dict(self.margins),
        }


_FIELDS = tuple(RetrainSettings.__slots__)


def parse_settings(value: object, *, pointer: str = "/settings") -> RetrainSettings:
    """Read settings as decoded from JSON; what they leave out has its default.

    Raises
    ------
    InvalidInputError
        An unknown field, or a value that it cannot have.
    """
    stated = as_object(value, pointer, what="Settings of a retraining", known=_FIELDS)
    return RetrainSettings(
        **{name: _read(name, one, f"{pointer}/{name}") for name, one in stated.items()}
    )


def _read(name: str, value: object, pointer: str) -> Any:
    match name:
        case "without":
            return _words(value, pointer)
        case "members":
            words = _words(value, pointer)
            return tuple(_member(one, pointer) for one in words)
        case "joint":
            return _numbers(value, JOINT_SETTINGS, pointer, whole=True)
        case "margins":
            return _numbers(value, _MARGINS, pointer, whole=False)
        case "folds" | "seed" | "tune":
            return _whole(name, value, 2 if name == "folds" else 0, pointer)
        case _:
            return as_flag(name, value, pointer)


def _words(value: object, pointer: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise InvalidInputError(f"A list of names is needed; got {value!r}.", pointer=pointer)
    return tuple(value)


def _member(name: str, pointer: str) -> str:
    if name not in PREDICTORS or name == "ensemble":
        known = [one for one in PREDICTORS if one != "ensemble"]
        raise InvalidInputError(
            f"Unknown member {name!r}. Use some of {', '.join(known)}.",
            pointer=pointer,
            allowed=known,
        )
    return name


def _numbers(
    value: object, known: tuple[str, ...], pointer: str, *, whole: bool
) -> Mapping[str, Any]:
    stated = as_object(value, pointer, what="This setting", known=known)
    return {
        name: _whole(name, one, 1, f"{pointer}/{name}")
        if whole or name in ("least_steps", "resamples", "seed")
        else as_number(name, one, f"{pointer}/{name}", least=0.0)
        for name, one in stated.items()
    }


def _whole(name: str, value: object, least: int, pointer: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise InvalidInputError(
            f"{name} must be a whole number from {least} to {_LARGEST}; got {shown(value)}.",
            pointer=pointer,
        )
    return value
