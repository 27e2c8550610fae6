"""Export the module of a job as an ONNX file in memory, off line."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from perfmodel.capture.program import tensors_in
from perfmodel.errors import MeasurementError
from perfmodel.zoo.bundle import ModelBundle

#: Operator set of the exported files.
OPSET = 17


class _Positional(nn.Module):
    """A module that takes its tensors by position and returns its first floating tensor."""

    def __init__(
        self, module: nn.Module, positional: int, names: list[str], fixed: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.module = module
        self._positional = positional
        self._names = names
        self._fixed = dict(fixed)

    def forward(self, *tensors: Tensor) -> Tensor:
        named = dict(zip(self._names, tensors[self._positional :], strict=True))
        output = self.module(*tensors[: self._positional], **named, **self._fixed)
        values = output if isinstance(output, (Tensor, Mapping, list, tuple)) else vars(output)
        return next(t for t in tensors_in(values) if t.is_floating_point())


def export_onnx(bundle: ModelBundle) -> tuple[bytes, dict[str, npt.NDArray[Any]]]:
    """Export a bundle for inference with fixed shapes.

    Parameters
    ----------
    bundle : ModelBundle
        Built on the CPU; its positional inputs are tensors.

    Returns
    -------
    file : bytes
        The ONNX file, weights included.
    feeds : dict of str to ndarray
        The bundle's inputs by the file's input names.

    Raises
    ------
    MeasurementError
        A module that the exporter cannot express.
    """
    named = {k: v for k, v in bundle.kwargs.items() if isinstance(v, Tensor)}
    fixed = {k: v for k, v in bundle.kwargs.items() if not isinstance(v, Tensor)}
    tensors = (*bundle.args, *named.values())
    names = [*(f"input_{i}" for i in range(len(bundle.args))), *named]
    module = _Positional(bundle.module, len(bundle.args), list(named), fixed).eval()
    file = io.BytesIO()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                tensors,
                file,  # type: ignore[arg-type]  # files in memory are taken too
                input_names=names,
                opset_version=OPSET,
                dynamo=False,
            )
    except Exception as error:  # the exporter raises whatever the module's code does
        reason = str(error).strip().split("\n", 1)[0][:300]
        raise MeasurementError(
            f"{bundle.name} cannot be exported to ONNX: {type(error).__name__}: {reason}"
        ) from error
    feeds = {
        name: np.ascontiguousarray(tensor.detach().numpy())
        for name, tensor in zip(names, tensors, strict=True)
    }
    return file.getvalue(), feeds
