"""The closed vocabularies of perfmodel: what a field may say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class Mode(StrEnum):
    """What one step does."""

    TRAINING = "training"
    INFERENCE = "inference"


class Precision(StrEnum):
    """Arithmetic of the matrix work of a step.

    ``amp_*`` keep fp32 parameters and cast at run time (``torch.autocast``); ``fp16`` and
    ``bf16`` hold everything in that type; ``tf32`` is fp32 storage with TF32 matrix units.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp_fp16"
    AMP_BF16 = "amp_bf16"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"

    @property
    def matrix_rate(self) -> str:
        """Key of :attr:`AcceleratorSpec.peak_flops` at which matrix work of this precision runs."""
        return self.value.removeprefix("amp_")

    @property
    def is_autocast(self) -> bool:
        """Whether it casts what is computed, and keeps parameters as they are."""
        return self.value.startswith("amp_")


class MemoryFormat(StrEnum):
    """Layout of 4-d activations."""

    CHANNELS_FIRST = "channels_first"
    CHANNELS_LAST = "channels_last"


class Compiler(StrEnum):
    """What executes the graph."""

    EAGER = "eager"
    INDUCTOR = "inductor"
    ONNXRUNTIME = "onnxruntime"
    TENSORRT = "tensorrt"
    OPENVINO = "openvino"

    @property
    def answered_as(self) -> Compiler:
        """Compiler whose figures stand in for this one's: itself where it was learned.

        OpenVINO executes the same exported graphs as ONNX Runtime, on the same CPUs.
        """
        return Compiler.ONNXRUNTIME if self is Compiler.OPENVINO else self


class Framework(StrEnum):
    """Which framework runs a step; ``software["framework"]`` of a job."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    MXNET = "mxnet"
    PADDLE = "paddle"
    ONEFLOW = "oneflow"
    JAX = "jax"
    CAFFE2 = "caffe2"
    TORCH7 = "torch7"

    @classmethod
    def of(cls, software: Mapping[str, str]) -> Framework:
        """Return the framework that software names; PyTorch where it names none.

        Raises
        ------
        ValueError
            Another word.

        Examples
        --------
        >>> Framework.of({"framework": "jax"}).value, Framework.of({"torch": "2.9.1"}).value
        ('jax', 'pytorch')
        """
        return cls(software.get("framework", cls.PYTORCH))


#: How else the field spells words of requests, in lower case: PyTorch, NumPy, JAX, Keras and
#: Lightning. Left out is what may mean two things: :data:`TWO_MEANINGS`.
SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        "float": "fp32", "float32": "fp32", "single": "fp32", "f32": "fp32", "32-true": "fp32",
        "tensorfloat32": "tf32", "tensorfloat-32": "tf32",
        "half": "fp16", "float16": "fp16", "f16": "fp16", "16-true": "fp16",
        "bfloat16": "bf16", "bfloat": "bf16", "bf16-true": "bf16",
        "amp_float16": "amp_fp16", "mixed_float16": "amp_fp16", "16-mixed": "amp_fp16",
        "amp_bfloat16": "amp_bf16", "mixed_bfloat16": "amp_bf16", "bf16-mixed": "amp_bf16",
        "float8": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "i8": "int8",
        "torch": "pytorch", "tf": "tensorflow", "paddlepaddle": "paddle", "flax": "jax",
        "torch.compile": "inductor", "torch-compile": "inductor", "torch_compile": "inductor",
        "compile": "inductor", "torchinductor": "inductor", "ort": "onnxruntime",
        "onnx-runtime": "onnxruntime", "trt": "tensorrt", "torch-tensorrt": "tensorrt",
        "torch_tensorrt": "tensorrt", "nchw": "channels_first", "nhwc": "channels_last",
    }
)  # fmt: skip
#: Words that are refused, since each may mean any of some words of requests.
TWO_MEANINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(("amp", "mixed"), ("amp_bf16", "amp_fp16"))
)


class AttentionKernel(StrEnum):
    """What computes attention: ``software["attention"]`` of a job, else what its release has."""

    #: One kernel that writes no scores: of PyTorch since 2.0, of xformers or of flash-attn before.
    FUSED = "fused"
    #: Products, softmax and what stands between them as calls of their own.
    EAGER = "eager"


#: Compilers that predictors have figures of; their columns are those of stored models.
LEARNED_COMPILERS: tuple[Compiler, ...] = tuple(c for c in Compiler if c.answered_as is c)


class Phase(StrEnum):
    """Part of a step that a node belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class Role(StrEnum):
    """What a tensor is to the step; memory accounting needs it."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"
    CONSTANT = "constant"


class Engine(StrEnum):
    """Which kind of unit does an operator's arithmetic: matrix (tensor cores) or vector."""

    MATRIX = "matrix"
    VECTOR = "vector"


class Basis(StrEnum):
    """What an answer rests on, best evidence first.

    ``measured``: this cell was observed. ``calibrated``: this job was, on this kind of accelerator.
    ``transferred``: this job was, on another kind. The others rest on what was learned of jobs.
    """

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    TRANSFERRED = "transferred"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    ANALYTICAL = "analytical"
    DEFAULT = "default"


#: Rungs of the ladder of evidence, best first, and the position of each.
LADDER: tuple[Basis, ...] = tuple(Basis)
RUNG = {basis: position for position, basis in enumerate(LADDER)}


def weakest(bases: Iterable[Basis | None]) -> Basis | None:
    """Return the rung that an answer stands on that rests on all of these; None where none does.

    Examples
    --------
    >>> weakest([Basis.MEASURED, None, Basis.ANALYTICAL])
    <Basis.ANALYTICAL: 'analytical'>
    """
    return max((basis for basis in bases if basis is not None), key=RUNG.__getitem__, default=None)
