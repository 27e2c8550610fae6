"""Give the dynamic dimensions of an ONNX file the extents that the caller names."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.capture.onnx.reading.model import Dim, OnnxGraph, OnnxValueInfo
from perfmodel.errors import UnsupportedOnnxError


class Binding:
    """Extents of the symbols of one file.

    A dimension without a symbol, or declared negative, is called ``"<input>[<axis>]"``.

    Parameters
    ----------
    dimensions : mapping of str to int
        Extents by symbol.
    batch_size : int or None
        Extent of the first dimension of every input, where the file leaves it open.

    Raises
    ------
    UnsupportedOnnxError
        A dimension is left without extent, a name is not in the file, an extent is not a
        positive integer, or the file fixes another batch size.
    """

    def __init__(
        self, graph: OnnxGraph, dimensions: Mapping[str, int], batch_size: int | None
    ) -> None:
        self.extents: dict[str, int] = {}
        for name, extent in dimensions.items():
            self._set(name, extent, "dimension")
        if batch_size is not None:
            self._bind_batch(graph, batch_size)
        self._check(graph)

    def shape(self, info: OnnxValueInfo) -> tuple[int, ...] | None:
        """Return the shape of a declared type, or None where it is not fully bound."""
        if info.dims is None:
            return None
        extents = self._bound(info)
        return None if None in extents else tuple(e for e in extents if e is not None)

    def _extent(self, dim: Dim, fallback: str) -> int | None:
        if isinstance(dim, int) and dim >= 0:
            return dim
        return self.extents.get(dim if isinstance(dim, str) else fallback)

    def _set(self, name: str, extent: int, what: str) -> None:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise UnsupportedOnnxError(
                f"The {what} {name!r} is bound to {extent!r}; it must be an integer >= 1.",
                pointer=f"/dimensions/{name}" if what == "dimension" else "/batch_size",
            )
        self.extents[name] = extent

    def _bind_batch(self, graph: OnnxGraph, batch_size: int) -> None:
        for info in graph.inputs:
            if not info.dims:
                continue
            first = info.dims[0]
            if isinstance(first, int) and first >= 0:
                if batch_size not in self._bound(info):
                    raise UnsupportedOnnxError(
                        f"Input {info.name!r} of the ONNX file is fixed at batch size {first}, "
                        f"{batch_size} was asked for. Export the model with a dynamic first "
                        f"dimension, or ask for batch size {first}.",
                        pointer="/batch_size",
                    )
                continue
            name = first if isinstance(first, str) else f"{info.name}[0]"
            if name not in self.extents:
                self._set(name, batch_size, "batch size")

    def _bound(self, info: OnnxValueInfo) -> list[int | None]:
        dims = info.dims or ()
        return [self._extent(dim, f"{info.name}[{axis}]") for axis, dim in enumerate(dims)]

    def _check(self, graph: OnnxGraph) -> None:
        names = _symbols(graph)
        unknown = sorted(set(self.extents) - set(names))
        if unknown:
            raise UnsupportedOnnxError(
                f"The ONNX file has no dimension {', '.join(map(repr, unknown))}. Its dynamic "
                f"dimensions are: {', '.join(map(repr, names)) or 'none'}.",
                pointer="/dimensions",
                allowed=names,
            )
        open_names = [n for n in _symbols(graph, inputs_only=True) if n not in self.extents]
        if open_names:
            example = ", ".join(f"{name!r}: 8" for name in open_names)
            raise UnsupportedOnnxError(
                f"The ONNX file leaves {', '.join(map(repr, open_names))} open. Bind each, for "
                f"example with dimensions={{{example}}}"
                f" (--dim {open_names[0]}=8 on a command line; batch_size=8 binds the first "
                "dimension of the inputs).",
                pointer="/dimensions",
                allowed=open_names,
            )


def _symbols(graph: OnnxGraph, *, inputs_only: bool = False) -> list[str]:
    infos = list(graph.inputs)
    if not inputs_only:
        infos += [*graph.outputs, *graph.value_info.values()]
    found: dict[str, None] = {}
    for info in infos:
        for axis, dim in enumerate(info.dims or ()):
            if isinstance(dim, str):
                found[dim] = None
            elif dim is None or dim < 0:
                found[f"{info.name}[{axis}]"] = None
    return list(found)
