"""An ONNX file that is measured itself, and the job that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfmodel.capture.onnx import capture_onnx, samples_of
from perfmodel.errors import InvalidInputError
from perfmodel.graph.in_precision import as_it_computes
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.types import Compiler, Mode

#: What is said of a file to be measured; everything else the file says itself.
_FIELDS = ("mode", "batch_size", "precision", "compiler")
_ENGINES = (Compiler.ONNXRUNTIME, Compiler.OPENVINO, Compiler.TENSORRT)

#: What is said where such a file is given to anything else.
ONLY_PROFILED = (
    "Only `perfmodel profile` measures such a file, on the machine where it lies: workers "
    "elsewhere do not have it. Give a model by name or a transformers config."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxFile:
    """An ONNX file with extents for its dynamic dimensions.

    Parameters
    ----------
    dimensions : mapping of str to int
        As :func:`~perfmodel.capture.onnx.capture_onnx` takes them.
    batch_size : int or None
        Extent of the first dimension of every input that leaves it open.
    """

    path: Path
    dimensions: Mapping[str, int] = field(default_factory=dict)
    batch_size: int | None = None

    @property
    def model(self) -> str:
        """Name of the model in records.

        Examples
        --------
        >>> OnnxFile(path=Path("/models/detector.onnx")).model
        'onnx/detector'
        """
        return f"onnx/{self.path.stem}"

    def capture(self) -> Graph:
        """Capture the graph of the file, without running it."""
        return capture_onnx(self.path, dimensions=self.dimensions, batch_size=self.batch_size)


def file_job(file: OnnxFile, stated: Mapping[str, Any]) -> Job:
    """Return the job of measuring a file: an inference of its graph, in ONNX Runtime by default.

    It is the job that a question about the file has, with the samples of its first input where
    no batch size is stated.

    Parameters
    ----------
    stated : mapping
        Fields of a job; ``batch_size`` as the file has it.

    Raises
    ------
    UnsupportedOnnxError
        No ONNX file, or one whose dimensions are not all bound.
    InvalidInputError
        Training, another precision than the file's, an engine that runs no ONNX files, or a field
        that a file says itself.
    """
    given = {name: value for name, value in stated.items() if value not in (None, (), {})}
    _check_stated(file, given)
    graph = file.capture()
    fields = {"compiler": Compiler.ONNXRUNTIME.value, **given, "mode": Mode.INFERENCE.value}
    samples = samples_of(graph, file.batch_size)
    job = parse_job({**fields, "graph": graph.content_hash, "batch_size": samples})
    own = as_it_computes(job, graph, {}).precision
    if "precision" in given and job.precision is not own:
        raise InvalidInputError(
            f"{file.path.name} computes in {own}, and files are measured as they are; got the "
            f"precision {job.precision}. Leave it out, or convert the file.",
            pointer="/job/precision",
            allowed=(own.value,),
        )
    _check_engine(file, job.compiler)
    return replace(job, precision=own)


def _check_stated(file: OnnxFile, given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"{name} does not apply to {file.path.name}: an ONNX file is measured as it is. "
                f"State {', '.join(_FIELDS)} or its dimensions.",
                pointer=f"/job/{name}",
                allowed=_FIELDS,
            )
    if given.get("mode", Mode.INFERENCE) != Mode.INFERENCE:
        raise InvalidInputError(
            f"{file.path.name} is measured in inference alone; got the mode {given['mode']!r}. An "
            "ONNX file holds no backward pass: measure training by the name of the model.",
            pointer="/job/mode",
            allowed=(Mode.INFERENCE.value,),
        )


def _check_engine(file: OnnxFile, compiler: Compiler) -> None:
    if compiler not in _ENGINES:
        words = tuple(one.value for one in _ENGINES)
        raise InvalidInputError(
            f"{compiler} runs no ONNX files; {file.path.name} is measured in {', '.join(words)}.",
            pointer="/job/compiler",
            allowed=words,
        )
