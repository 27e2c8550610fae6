"""Import the kernel databases of aiconfigurator: GEMM, attention, mixture of experts, collectives.

Forward kernels of serving frameworks. Extents::

    gemm               m, n, k
    attention_prefill  batch, tokens (new ones), context (before them), heads, kv_heads, head_dim,
                       kv_element_bytes
    attention_decode   the same with one new token
    moe                tokens, hidden, inter, top_k, experts, tensor_parallel, expert_parallel,
                       skew (exponent of the power law of the experts' load; 0 when balanced)

The type of arithmetic keeps the source's word where weights are stored narrower than they are
computed with (``w4a16``: four-bit weights, sixteen-bit arithmetic). ``kernel`` reads
``<framework> <version> <kernel source>``.

The attention tables hold calls with a sliding window beside full ones and may not say which is
which. Two signs are certain enough to refuse a row: the same call is listed again with a much
longer time, or the time beats the accelerator's peak if all earlier tokens are attended to. What is
left is taken for full attention.

Reference: repository ai-dynamo/aiconfigurator, Apache-2.0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.features.kernels.kernel_calls import kernel_calls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.importers.kernels import collectives_table
from perfmodel.importers.kernels.kernel_tables import accelerator_named, joined, word
from perfmodel.importers.public_tables import PublicTable, Row, find_tables, positive
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedCollective,
    PublishedKernel,
    RejectedRow,
)

SOURCE = "ai-dynamo/aiconfigurator systems/data"
LICENCE = "Apache-2.0"

GEMM_FILE = "aic_gemm.parquet"
PREFILL_FILE = "aic_attention_prefill.parquet"
DECODE_FILE = "aic_attention_decode.parquet"
MOE_FILE = "aic_moe.parquet"

_COMMON = ("device", "framework", "version", "kernel_source", "latency_ms")
_ATTENTION = (
    "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads",
    "head_dim", "step",
)  # fmt: skip
_MOE = (
    "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
    "moe_ep_size", "distribution",
)  # fmt: skip
_DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "sq": "int8",
    "w4a16_mxfp4": "w4a16_mxfp4",
    "w4a8_mxfp4_mxfp8": "w4a8_mxfp4",
}
_ELEMENT_BYTES = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0}

_Table = tuple[str, tuple[str, ...], str, Callable[[Row], Mapping[str, float]]]
#: Repeats of one call lie closer together than this; a window makes a larger difference.
SAME_CALL = 0.85


def read_aiconfigurator(path: Path) -> Imported:
    """Read the kernel tables, and the collectives of the same source, or one of these files."""
    rejected: list[RejectedRow] = []
    kernels: list[PublishedKernel] = []
    collectives: list[PublishedCollective] = []
    for file in find_tables(path, (*_TABLES, collectives_table.FILE)):
        if file.name == collectives_table.FILE:
            collectives, others = collectives_table.read_collectives(
                file, "aiconfigurator", f"{SOURCE} comm", LICENCE
            )
            rejected += others
        elif file.name in _TABLES:
            kernels += _read_table(file, rejected)
        else:
            reason = f"no table of this format is called so; known are {', '.join(_TABLES)}"
            rejected.append(RejectedRow(file=file.name, line=0, reason=reason))
    return Imported(
        kernels=tuple(kernels), collectives=tuple(collectives), rejected=tuple(rejected)
    )


def _read_table(file: Path, rejected: list[RejectedRow]) -> list[PublishedKernel]:
    op, columns, dtype_column, shape = _TABLES[file.name]
    table = PublicTable(
        files=(file.name,),
        source=SOURCE,
        licence=LICENCE,
        columns=(*_COMMON, *columns),
        optional=(),
    )

    def make(row: Row, origin: Origin) -> PublishedKernel:
        return PublishedKernel(
            op=op,
            accelerator=accelerator_named(row["device"]),
            dtype=word(row, dtype_column, _DTYPES),
            shape=shape(row),
            time_s=positive(row, "latency_ms") * 1e-3,
            origin=origin,
            kernel=joined(row["framework"], row["version"], row["kernel_source"]),
        )

    made, others = table.records(file, make)
    rejected += others
    return full_attention(made, rejected) if op.startswith("attention") else made


def _gemm(row: Row) -> Mapping[str, float]:
    return {name: positive(row, name) for name in ("m", "n", "k")}


def _attention(row: Row) -> Mapping[str, float]:
    heads, kv_heads = positive(row, "num_heads"), positive(row, "num_key_value_heads")
    context = float(row["step"])
    if heads % kv_heads or not (math.isfinite(context) and context >= 0):
        raise ValueError(f"{heads:g} heads over {kv_heads:g}, {context:g} tokens of context")
    return {
        "batch": positive(row, "batch_size"),
        "tokens": positive(row, "isl"),
        "context": context,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": positive(row, "head_dim"),
        "kv_element_bytes": word(row, "kv_cache_dtype", _ELEMENT_BYTES),
    }


def _moe(row: Row) -> Mapping[str, float]:
    columns = {
        "tokens": "num_tokens",
        "hidden": "hidden_size",
        "inter": "inter_size",
        "top_k": "topk",
        "experts": "num_experts",
        "tensor_parallel": "moe_tp_size",
        "expert_parallel": "moe_ep_size",
    }
    return {name: positive(row, column) for name, column in columns.items()} | {"skew": _skew(row)}


def _skew(row: Row) -> float:
    said = str(row["distribution"])
    if said == "balanced":
        return 0.0
    name, _, exponent = said.rpartition("_")
    if name != "power_law":
        raise ValueError(f"distribution is {said!r}, neither balanced nor power_law_<exponent>")
    return float(exponent)


#: File to operator, further columns, the column of the arithmetic, and the reader of the shape.
_TABLES: Mapping[str, _Table] = MappingProxyType(
    {
        GEMM_FILE: ("gemm", ("gemm_dtype", "m", "n", "k"), "gemm_dtype", _gemm),
        PREFILL_FILE: ("attention_prefill", _ATTENTION, "attn_dtype", _attention),
        DECODE_FILE: ("attention_decode", _ATTENTION, "attn_dtype", _attention),
        MOE_FILE: ("moe", _MOE, "moe_dtype", _moe),
    }
)


def full_attention(
    kernels: Sequence[PublishedKernel], rejected: list[RejectedRow]
) -> list[PublishedKernel]:
    """Return the calls that can be attention to all earlier tokens.

    Parameters
    ----------
    kernels : sequence of PublishedKernel
        Attention calls of one table.
    rejected : list of RejectedRow
        Gets the others, with the reason.

    Returns
    -------
    list of PublishedKernel
        In the order given.
    """
    slowest = _slowest(kernels)
    floor_s = _floor_s(kernels)
    kept = []
    for position, kernel in enumerate(kernels):
        if kernel.time_s < floor_s[position]:
            reason = "faster than the accelerator's peak if all tokens are attended to; a window?"
        elif kernel.time_s < SAME_CALL * slowest[position]:
            reason = "the same call is listed with a longer time; a window that is not stated?"
        else:
            kept.append(kernel)
            continue
        rejected.append(
            RejectedRow(file=kernel.origin.file, line=kernel.origin.line, reason=reason)
        )
    return kept


def _slowest(kernels: Sequence[PublishedKernel]) -> list[float]:
    """Return the longest time of each kernel's call."""
    keys = [
        (k.op, k.accelerator, k.dtype, k.kernel, tuple(sorted(k.shape.items()))) for k in kernels
    ]
    longest: defaultdict[object, float] = defaultdict(float)
    for key, kernel in zip(keys, kernels, strict=True):
        longest[key] = max(longest[key], kernel.time_s)
    return [longest[key] for key in keys]


def _floor_s(kernels: Sequence[PublishedKernel]) -> list[float]:
    if not kernels:
        return []
    catalog = Catalog.default()
    specs = {name: catalog.get(name) for name in {k.accelerator for k in kernels}}
    calls = kernel_calls(
        op=[k.op for k in kernels],
        dtype=[k.dtype for k in kernels],
        accelerator=[specs[k.accelerator] for k in kernels],
        shape=[k.shape for k in kernels],
    )
    return list(np.asarray(kernel_roofline(calls).floor_s).tolist())
