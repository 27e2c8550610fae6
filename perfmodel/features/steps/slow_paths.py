r"""Operators that PyTorch runs on a slow path: what they cost beyond their formula.

Four paths are slower by a factor that no efficiency of common operators tells, and known well
enough to be stated. Their time is added to that of the row, seconds::

    x_i = p_i . q_s      p_i: work of a row on each path, q_s: seconds a unit of it costs a step

``scores``
    ``scaled_dot_product_attention`` on tensors that are not four-dimensional takes no fused
    kernel on a GPU. The scores are written, normalised and read again, in full precision since
    PyTorch 2.5, whose safe softmax also looks for rows that are masked out
    (``aten/src/ATen/native/transformers/attention.cpp``). Counted are the bytes that pass, an
    element: 8 before (two written and read in sixteen bits), 32 since then; a compiler that
    fuses the point-wise part leaves 4 and 12.
``turns``
    ``upsample_bilinear2d`` and ``upsample_bicubic2d`` on dense channels-first tensors start one
    thread for each pixel of the result, which takes the channels of all samples in turn
    (``aten/src/ATen/native/cuda/UpSampleBilinear2d.cu``): 0.3 us a turn, whatever the card,
    as published inference times of one family on an RTX 3090, 4090 and PRO 6000 have it
    (0.27 to 0.39). Tokens
    seen as an image are channels-last and take another kernel, so what a matrix product wrote
    is not counted. A compiler writes its own kernel.
``parts``
    Attention has a fused kernel since PyTorch 2.0. Before, and in other frameworks, the product
    of queries and keys is written, scaled, normalised and read again, all in the precision of the
    step; under autocast the softmax is computed in full precision, between two conversions. Counted
    are the bytes that pass, for a score: 12 in half precision, 24 in full, 28 under autocast, half
    as much again on the way back. The same vision transformers on an RTX 3090 in PyTorch 1.13 and
    2.1, under autocast, differ by 21 to 30 (52 networks of 180 to 300 tokens, median 26).
``recursion``, ``weights``
    The steps of a recurrent layer wait for each other: a step takes 20 us, however little it
    computes, and reads all weights of its recursion again. So it is with cuDNN 7.6 on a V100 in
    DeepBench's table, for LSTMs and GRUs of 256 to 4,096 units and 25 to 1,500 steps, both ways.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.releases import has_fused_attention
from perfmodel.features.steps.sketch import NEIGHBOUR_COLUMNS, StepSketch
from perfmodel.types import Precision

#: Columns of the work of a row, and of the seconds a unit of it takes.
SLOW_PATHS: tuple[str, ...] = ("scores", "turns", "parts", "recursion", "weights")

#: PyTorch from which attention without a fused kernel computes in full precision.
_FULL_PRECISION_TORCH = 2.5
#: Bytes that pass for a score: (eager, fused), in half and in full precision.
_HALF_BYTES, _FULL_BYTES = (8.0, 4.0), (32.0, 12.0)
#: Share of the bandwidth that streaming kernels reach.
_STREAMING = 0.85
_TURN_S = 0.3e-6
#: Bytes that pass for a score where attention is computed by its parts.
_PARTS_HALF, _PARTS_FULL, _PARTS_AUTOCAST = 12.0, 24.0, 28.0
#: Bytes on the way back over those on the way there; and the depth of all products over that.
_BACK, _BACK_DEPTH = 1.5, 2.5
#: A step of a recursion, seconds.
_RECURSION_S = 20e-6
_ATTENTION = "scaled_dot_product_attention"
_ATTENTION_BACK = f"{_ATTENTION}_backward"
_RESAMPLING = ("upsample_bilinear2d", "upsample_bicubic2d")
_FROM_PRODUCT = NEIGHBOUR_COLUMNS.index("reads_from_matmul")


def slow_path_work(sketch: StepSketch) -> FloatArray:
    """Return the work of every row on each slow path.

    Returns
    -------
    ndarray, shape (rows, len(SLOW_PATHS))
        Of one node; 0 for what takes no slow path.
    """
    ops = np.array(sketch.ops, dtype=np.str_)
    attention, back = ops == _ATTENTION, ops == _ATTENTION_BACK
    unfused = attention & (sketch.column("output_rank") != 4)
    serial = np.isin(ops, _RESAMPLING) & (sketch.neighbours[:, _FROM_PRODUCT] <= 0.5)
    work = np.zeros((len(ops), len(SLOW_PATHS)))
    if unfused.any():
        work[unfused, 0] = _scores(sketch)[unfused]
    if serial.any():
        work[serial, 1] = _turns(sketch)[serial]
    if attention.any() or back.any():
        work[:, 2] = _scores(sketch) * (attention + back * _BACK / _BACK_DEPTH)
    work[:, 3:] = sketch.recursion
    return work


def _scores(sketch: StepSketch) -> FloatArray:
    """Return queries times keys; the depth of both products together is twice the keys."""
    queries = _extent(sketch, "log_output") / np.maximum(_extent(sketch, "log_gemm_n"), 1.0)
    return np.asarray(queries * _extent(sketch, "log_gemm_k") / 2.0)


def _turns(sketch: StepSketch) -> FloatArray:
    """Return samples times channels: elements of the image over its pixels, a square."""
    width = np.maximum(_extent(sketch, "log_last_extent"), 1.0)
    return np.asarray(_extent(sketch, "log_largest_input") / width**2)


def _extent(sketch: StepSketch, column: str) -> FloatArray:
    return np.asarray(np.exp2(sketch.column(column).astype(np.float64)) - 1.0)


def slow_path_rates(
    *,
    gpu: bool,
    fused: bool,
    torch_version: float,
    bandwidth_bytes_per_s: float,
    parts_bytes: float,
) -> list[float]:
    """Return the seconds that a unit of each slow path costs, see :data:`SLOW_PATHS`.

    Parameters
    ----------
    gpu : bool
        Elsewhere no path differs.
    fused : bool
        A compiler that fuses has made the kernels.
    torch_version : float
        As :func:`~perfmodel.features.steps.releases.torch_version` tells it.
    parts_bytes : float
        Of a score of attention that is computed by its parts, see :func:`bytes_of_parts`; 0 where
        a kernel is fused.

    Examples
    --------
    A score in full precision on a card of 1 TB/s: 32 B / (0.85 * 1e12 B/s).

    >>> [f"{seconds:.2e}" for seconds in slow_path_rates(gpu=True, fused=False,
    ...     torch_version=2.6, bandwidth_bytes_per_s=1e12, parts_bytes=0.0)]
    ['3.76e-11', '3.00e-07', '0.00e+00', '2.00e-05', '1.18e-12']
    """
    if not gpu:
        return [0.0] * len(SLOW_PATHS)
    byte_s = 1.0 / (_STREAMING * bandwidth_bytes_per_s)
    turn_s = 0.0 if fused else _TURN_S
    # Steps of a recurrent layer wait for each other.
    again = [_RECURSION_S, byte_s]
    if parts_bytes > 0:
        return [0.0, turn_s, parts_bytes * byte_s, *again]
    passing = _FULL_BYTES if torch_version >= _FULL_PRECISION_TORCH else _HALF_BYTES
    return [passing[fused] * byte_s, turn_s, 0.0, *again]


def bytes_of_parts(precision: Precision, software: Mapping[str, str], *, fused: bool) -> float:
    """Return the bytes that pass for a score of attention, 0 where its kernel is fused.

    Parameters
    ----------
    software : mapping of str to str
        Of a job: the framework, its :class:`~perfmodel.types.AttentionKernel`, and apex, which
        leaves the softmax in half precision.
    fused : bool
        A compiler that fuses has made the kernels.

    Examples
    --------
    >>> from perfmodel.types import Precision
    >>> [bytes_of_parts(Precision.AMP_FP16, {"torch": "1.13.1", **said}, fused=False)
    ...     for said in ({}, {"apex": "O2"}, {"attention": "fused"})]
    [28.0, 12.0, 0.0]
    """
    if fused or has_fused_attention(software):
        return 0.0
    if precision in (Precision.FP32, Precision.TF32):
        return _PARTS_FULL
    is_autocast = precision.is_autocast and "apex" not in software
    return _PARTS_AUTOCAST if is_autocast else _PARTS_HALF
