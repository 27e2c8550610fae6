"""Every error that perfmodel raises on purpose, with the tree on top.

::

    PerfModelError
    +-- InvalidInputError            the caller sent something that cannot be answered
    |   +-- UnknownNameError         a name that no register holds; carries the nearest ones
    |   |   +-- UnknownAcceleratorError
    |   |   +-- UnknownModelError
    |   |   +-- UnknownGraphError
    |   |   +-- UnknownJobError
    |   |   +-- UnknownPredictorError
    |   |   +-- UnknownModelVersionError
    |   |   +-- UnknownProviderError a provider of which a file of prices says nothing
    |   |   +-- UnknownSettingError  a setting of the service that there is not
    |   |   +-- UnknownFieldError    a field that a request does not have
    |   |   +-- UnknownWordError     a word outside the closed vocabulary of a field
    |   +-- TakenNameError           a name that means something else already
    |   +-- InvalidPlacementError    nonsense in a placement, long or short form
    |   +-- InvalidGraphError        canonical JSON that is no graph
    |   +-- CaptureError             a model that could not be turned into a graph
    |   |   +-- CaptureBudgetError   one whose capture takes more than it may
    |   +-- UnsupportedOnnxError     an ONNX file that is refused, with the reason
    |   +-- InvalidTraceError        a trace that cannot be read, with the reason
    +-- MissingExtraError            an optional library is absent; names the extra
    +-- DamagedArtifactError         a stored model whose content is not what was written
    +-- NotInTimeError               an answer that takes longer than the caller waits
    +-- BusyError                    work for which there is no place now
    +-- StoreError                   a record or a file that could not be read or written
    +-- OvertakenError               a change that somebody else's took the place of
    +-- MeasurementError             a profile run that failed; carries the reason
    |   +-- OutOfDeviceMemoryError   the memory of the device did not suffice; carries its size
    +-- TrainingError                data from which nothing can be learned

Each message says what was wrong, what was got, and what to do. The service maps
them to HTTP in ``service/http/errors.py`` and nowhere else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class PerfModelError(Exception):
    """Base of every error that perfmodel raises on purpose.

    Parameters
    ----------
    message : str
        What was wrong, what was got, what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Their constructors take other things than a message: what comes from another process is
        # put together as it was there.
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(
    kind: type[PerfModelError], arguments: tuple[Any, ...], attributes: Mapping[str, Any]
) -> PerfModelError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class InvalidInputError(PerfModelError):
    """The caller sent something that cannot be answered.

    Parameters
    ----------
    pointer : str
        JSON pointer (RFC 6901) to the offending part of the request, or ``""``.
    allowed : sequence of str
        The values that would have been accepted, where they can be listed.

    Attributes
    ----------
    others : tuple of InvalidInputError
        What else is wrong with the same input, as far as it was looked for.
    """

    def __init__(self, message: str, *, pointer: str = "", allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pointer = pointer
        self.allowed = tuple(allowed)
        self.others: tuple[InvalidInputError, ...] = ()


#: So many names are all told where one is unknown.
_FEW_NAMES = 20


class UnknownNameError(InvalidInputError):
    """A name that a register does not hold.

    Parameters
    ----------
    known : iterable of str
        Every name that the register holds; the nearest ones go into the message.
    like : str
        What of the name they are to be near to; all of it where nothing is stated.
    suggested : sequence of str
        Names to suggest in the place of the nearest ones.
    """

    kind = "name"

    def __init__(
        self,
        name: str,
        *,
        known: Iterable[str] = (),
        like: str = "",
        suggested: Sequence[str] = (),
        pointer: str = "",
        hint: str = "",
    ) -> None:
        names = sorted(set(known))
        self.name = name
        self.did_you_mean = list(suggested) or nearest_names(like or name, names)
        parts = [f"Unknown {self.kind} {name!r}."]
        if self.did_you_mean:
            parts.append(f"Did you mean {' or '.join(repr(n) for n in self.did_you_mean)}?")
        allowed = names if len(names) <= _FEW_NAMES else []
        if hint:
            parts.append(hint)
        elif allowed and not self.did_you_mean:
            parts.append(f"Known: {', '.join(allowed)}.")
        super().__init__(" ".join(parts), pointer=pointer, allowed=allowed)


class UnknownAcceleratorError(UnknownNameError):
    """No accelerator of that name or alias in the catalogue."""

    kind = "accelerator"


class UnknownModelError(UnknownNameError):
    """No model of that name in timm or the zoo."""

    kind = "model"


class UnknownGraphError(UnknownNameError):
    """No graph of that hash has been registered."""

    kind = "graph"


class UnknownJobError(UnknownNameError):
    """No job was registered under that reference."""

    kind = "job"


class UnknownPredictorError(UnknownNameError):
    """No predictor or trained artefact of that name."""

    kind = "predictor"


class UnknownModelVersionError(UnknownNameError):
    """A version of the model that is not installed."""

    kind = "model version"


class UnknownProviderError(UnknownNameError):
    """A provider of which a file of prices says nothing."""

    kind = "provider"


class UnknownSettingError(UnknownNameError):
    """A setting that the service does not have."""

    kind = "setting"


class UnknownFieldError(UnknownNameError):
    """A field that a request does not have."""

    kind = "field"


class UnknownWordError(UnknownNameError):
    """A word outside the closed vocabulary of a field."""

    def __init__(
        self,
        word: str,
        *,
        field: str,
        known: Sequence[str],
        pointer: str = "",
        suggested: Sequence[str] = (),
    ) -> None:
        self.kind = field
        hint = f"Use {', '.join(known)}."
        super().__init__(word, known=known, pointer=pointer, hint=hint, suggested=suggested)


class TakenNameError(InvalidInputError):
    """A name that means something else already."""


class InvalidPlacementError(InvalidInputError):
    """A placement that makes no sense, with the reason."""


class InvalidGraphError(InvalidInputError):
    """JSON that is not a canonical graph, with the place where it breaks."""


class CaptureError(InvalidInputError):
    """A model that could not be turned into a graph, with the reason."""


class CaptureBudgetError(CaptureError):
    """A capture that takes more time, memory or operators than it may."""


class UnsupportedOnnxError(CaptureError):
    """An ONNX file that is refused: external data, cycles, unbound dimensions, excess size."""


class InvalidTraceError(InvalidInputError):
    """A trace that cannot be read: broken, hostile, too large, or of no known format."""


class MissingExtraError(PerfModelError):
    """An optional library is absent.

    Parameters
    ----------
    feature : str
        What cannot be done without it.
    extra : str
        The extra of this distribution that brings it.
    """

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(
            f"{feature} needs the extra {extra!r}. Install it with: "
            f"pip install 'perfmodel[{extra}]'"
        )
        self.extra = extra


class DamagedArtifactError(PerfModelError):
    """A stored model whose content is not what was written."""


class NotInTimeError(PerfModelError):
    """An answer that takes longer than the caller waits."""


class BusyError(PerfModelError):
    """Work for which there is no place now; the same may be asked again a little later."""


class StoreError(PerfModelError):
    """A record or a file that could not be read or written."""


class OvertakenError(PerfModelError):
    """A change that does not stand, since somebody else made another at the same time."""


class MeasurementError(PerfModelError):
    """A profile run that failed, with the reason."""


class OutOfDeviceMemoryError(MeasurementError):
    """A step that the memory of a device does not suffice for.

    Parameters
    ----------
    capacity_bytes : float or None
        What the device has; None where its driver does not say.
    """

    def __init__(self, message: str, *, capacity_bytes: float | None) -> None:
        super().__init__(message)
        self.capacity_bytes = capacity_bytes


class TrainingError(PerfModelError):
    """Data from which nothing can be learned, with the reason."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error of a library says, for messages about its cause."""
    return str(error).strip().split("\n", 1)[0][:300] or type(error).__name__


def nearest_names(name: str, known: Sequence[str], *, limit: int = 3) -> list[str]:
    """Return the names closest to a misspelt one, best first.

    Parameters
    ----------
    known : sequence of str
        Names to compare with; compared without regard to case.

    Returns
    -------
    list of str
        At most ``limit`` names; empty when nothing is close.

    Examples
    --------
    >>> nearest_names("resnt50", ["resnet50", "vit_base", "resnet18"], limit=1)
    ['resnet50']
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=limit, cutoff=0.6)
    return [by_folded[folded] for folded in close]
