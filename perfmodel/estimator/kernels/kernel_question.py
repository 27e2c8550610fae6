"""Questions about kernels: read strictly, each bad one for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.features.kernels.kernel_extents import EXTENTS, FROM_ZERO, NOT_WHOLE, Extents
from perfmodel.features.kernels.kernel_work import DTYPES
from perfmodel.json_values import (
    as_count,
    as_items,
    as_known_text,
    as_number,
    as_object,
    as_text,
)
from perfmodel.placement.collectives.collective_constants import Collective

T = TypeVar("T")

#: Most cells of a request: kernels times accelerators.
MOST_CELLS = 10_000
_FIELDS = ("kernels", "accelerators")
_OF_A_KERNEL = ("op", "precision", "shape", "implementation", "link", "network")
_COLLECTIVES = tuple(one.value for one in Collective)
#: Extents of a collective: bytes of the whole tensor of a rank, accelerators, and those of a host.
COLLECTIVE_EXTENTS = Extents(
    needed=("size_bytes", "ranks"), usual={"per_host": lambda stated, dtype: 8.0}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelQuestion:
    """One kernel, or one collective, wherever it runs.

    Parameters
    ----------
    op : str
        A key of :data:`.kernel_extents.EXTENTS`, or a word of :class:`Collective`.
    precision : str
        A key of :data:`.kernel_work.DTYPES`; empty for a collective.
    shape : mapping of str to float
        Every extent.
    implementation : str
        Whose kernel it is, ``"<framework> <version> <source>"``; empty where it is left open.
    link, network : str or None
        Of a collective: inside and between hosts.
    """

    op: str
    precision: str
    shape: Mapping[str, float]
    implementation: str = ""
    link: str | None = None
    network: str | None = None

    @property
    def is_collective(self) -> bool:
        """Whether accelerators exchange something."""
        return self.op in _COLLECTIVES


@dataclass(frozen=True, kw_only=True)
class KernelsQuestion:
    """Every pair of some kernels and some accelerators.

    Parameters
    ----------
    kernels : tuple of KernelQuestion or PerfModelError
        What is wrong with a kernel stands in its place.
    accelerators : tuple of str
        As they were written.
    """

    kernels: tuple[KernelQuestion | PerfModelError, ...]
    accelerators: tuple[str, ...]


def parse_kernels(question: object) -> KernelsQuestion:
    """Read the body of ``POST /v1/kernels``.

    Raises
    ------
    InvalidInputError
        No kernels, no accelerators, or more than :data:`MOST_CELLS` pairs. What is wrong with a
        single kernel is returned in its place.

    Examples
    --------
    >>> found = parse_kernels({
    ...     "kernels": [{"op": "gemm", "precision": "bf16", "shape": {"m": 64, "n": 64, "k": 64}}],
    ...     "accelerators": ["H100"]})
    >>> found.kernels[0].shape["k"]
    64.0
    """
    fields = as_object(question, "", what="A request", known=_FIELDS)
    kernels, accelerators = (as_items(name, fields.get(name), f"/{name}") for name in _FIELDS)
    cells = len(kernels) * len(accelerators)
    if cells > MOST_CELLS:
        raise InvalidInputError(
            f"{len(kernels)} kernels x {len(accelerators)} accelerators are {cells} cells; at most "
            f"{MOST_CELLS} are answered at a time. Send fewer."
        )
    return KernelsQuestion(
        kernels=tuple(_attempt(parse_kernel, k, f"/kernels/{i}") for i, k in enumerate(kernels)),
        accelerators=tuple(
            as_text("accelerator", name, f"/accelerators/{i}")
            for i, name in enumerate(accelerators)
        ),
    )


def parse_kernel(value: object, pointer: str = "") -> KernelQuestion:
    """Read one kernel.

    Raises
    ------
    InvalidInputError
        A field or extent that is missing, unknown or out of range; ``pointer`` says which.
    """
    fields = as_object(value, pointer, what="A kernel", known=_OF_A_KERNEL)
    op = as_known_text("op", fields.get("op"), (*EXTENTS, *_COLLECTIVES), f"{pointer}/op")
    if op in _COLLECTIVES:
        _refuse(fields, ("precision", "implementation"), "a collective", pointer)
        return KernelQuestion(
            op=op,
            precision="",
            shape=_shape(op, COLLECTIVE_EXTENTS, fields, "", pointer),
            link=_optional_text(fields, "link", pointer),
            network=_optional_text(fields, "network", pointer),
        )
    _refuse(fields, ("link", "network"), "a kernel of one accelerator", pointer)
    written = fields.get("precision")
    if written is None:
        raise InvalidInputError(
            f"Say the precision of {op}, such as bf16.",
            pointer=f"{pointer}/precision",
            allowed=tuple(DTYPES),
        )
    precision = as_known_text("precision", written, tuple(DTYPES), f"{pointer}/precision")
    return KernelQuestion(
        op=op,
        precision=precision,
        shape=_shape(op, EXTENTS[op], fields, precision, pointer),
        implementation=_optional_text(fields, "implementation", pointer) or "",
    )


def _shape(
    op: str, known: Extents, fields: Mapping[str, Any], precision: str, pointer: str
) -> Mapping[str, float]:
    here = f"{pointer}/shape"
    stated = as_object(fields.get("shape"), here, what="shape", known=known.names)
    missing = [name for name in known.needed if stated.get(name) is None]
    if missing:
        raise InvalidInputError(
            f"{op} needs the extent {missing[0]!r} in its shape; it takes "
            f"{', '.join(known.names)}.",
            pointer=f"{here}/{missing[0]}",
        )
    given = {n: _extent(n, v, f"{here}/{n}") for n, v in stated.items() if v is not None}
    shape = known.filled(given, precision)
    if op == "moe" and shape["top_k"] > shape["experts"]:
        raise InvalidInputError(
            f"top_k must be at most experts; got {shape['top_k']:g} and {shape['experts']:g}.",
            pointer=f"{here}/top_k",
        )
    if "kv_heads" in shape and shape["heads"] % shape["kv_heads"]:
        raise InvalidInputError(
            f"heads must be a multiple of kv_heads; got {shape['heads']:g} and "
            f"{shape['kv_heads']:g}.",
            pointer=f"{here}/kv_heads",
        )
    return shape


def _extent(name: str, value: object, pointer: str) -> float:
    if name == "size_bytes" or name in NOT_WHOLE:
        least = 0.0 if name in FROM_ZERO else None
        return as_number(name, value, pointer, least=least)
    if name in FROM_ZERO and value == 0 and not isinstance(value, bool):
        return 0.0
    return float(as_count(name, value, pointer))


def _refuse(fields: Mapping[str, Any], names: tuple[str, ...], what: str, pointer: str) -> None:
    for name in names:
        if fields.get(name) is not None:
            raise InvalidInputError(f"{name} is not of {what}.", pointer=f"{pointer}/{name}")


def _optional_text(fields: Mapping[str, Any], name: str, pointer: str) -> str | None:
    value = fields.get(name)
    return None if value is None else as_text(name, value, f"{pointer}/{name}")


def _attempt(read: Callable[[object, str], T], value: object, pointer: str) -> T | PerfModelError:
    try:
        return read(value, pointer)
    except PerfModelError as error:
        return error
