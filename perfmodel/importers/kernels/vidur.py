"""Import the measurements of Vidur: the sub-operators of transformer blocks, and collectives.

fp16 forward passes. The extents follow from the model and the tensor-parallel degree ``t``, with
head width ``d = n_embd / n_head``::

    attn_pre_proj   gemm       m = tokens, n = (n_head + 2 n_kv_head) d / t, k = n_embd
    attn_post_proj  gemm       m = tokens, n = n_embd, k = n_embd / t
    mlp_up_proj     gemm       m = tokens, n = n_expanded / t (twice that where gated), k = n_embd
    mlp_down_proj   gemm       m = tokens, n = n_embd, k = n_expanded / t
    attn_rope       rope       rows = tokens, width = (n_head + n_kv_head) d / t
    mlp_act         silu_mul   rows = tokens, width = n_expanded / t      (gelu where not gated)
    *_layernorm     rms_norm   rows = tokens, width = n_embd        (layer_norm where not gated)
    add, emb        add, embedding

The gated models of the table are of the Llama kind, which normalises by the root mean square.
Times have a resolution of one microsecond.

Reference: Agrawal et al., "Vidur", MLSys 2024; repository microsoft/vidur, MIT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.importers.kernels import collectives_table
from perfmodel.importers.kernels.kernel_tables import accelerator_named
from perfmodel.importers.public_tables import PublicTable, Row, find_tables, positive
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedCollective,
    PublishedKernel,
    RejectedRow,
)

FILE = "vidur_mlp_ops.parquet"
SOURCE = "microsoft/vidur data/profiling"
LICENCE = "MIT"

_KERNELS = PublicTable(
    files=(FILE,),
    source=f"{SOURCE}/compute",
    licence=LICENCE,
    columns=(
        "device", "op", "median_ms", "num_tokens", "num_tensor_parallel_workers", "n_head",
        "n_kv_head", "n_embd", "n_expanded_embd", "use_gated_mlp",
    ),
    optional=(),
)  # fmt: skip


def read_vidur(path: Path) -> Imported:
    """Read the sub-operators, and the collectives of the same source, or one of these files."""
    kernels: list[PublishedKernel] = []
    collectives: list[PublishedCollective] = []
    rejected: tuple[RejectedRow, ...] = ()
    for file in find_tables(path, (FILE, collectives_table.FILE)):
        if file.name == collectives_table.FILE:
            collectives, others = collectives_table.read_collectives(
                file, "vidur", f"{SOURCE}/network", LICENCE
            )
        else:
            kernels, others = _KERNELS.records(file, _kernel)
        rejected += others
    return Imported(kernels=tuple(kernels), collectives=tuple(collectives), rejected=rejected)


def _kernel(row: Row, origin: Origin) -> PublishedKernel:
    if row["op"] not in OPERATORS:
        raise ValueError(f"op is {row['op']!r}; understood are {', '.join(sorted(OPERATORS))}")
    op, shape = OPERATORS[row["op"]](row)
    if any(extent != int(extent) for extent in shape.values()):
        raise ValueError(f"{shape} does not divide into whole extents")
    return PublishedKernel(
        op=op,
        accelerator=accelerator_named(row["device"]),
        dtype="fp16",
        shape=shape,
        time_s=positive(row, "median_ms") * 1e-3,
        origin=origin,
        kernel=f"vidur {row['op']}",
    )


_Shaped = tuple[str, Mapping[str, float]]


def _share(row: Row, column: str) -> float:
    """Return an extent of the model over the tensor-parallel degree."""
    return positive(row, column) / positive(row, "num_tensor_parallel_workers")


def _heads(row: Row, key_copies: float) -> float:
    head = positive(row, "n_embd") / positive(row, "n_head")
    return (_share(row, "n_head") + key_copies * _share(row, "n_kv_head")) * head


def _gemm(row: Row, n: float, k: float) -> _Shaped:
    return "gemm", {"m": positive(row, "num_tokens"), "n": n, "k": k}


def _wide(op: str, row: Row, width: float, inputs: float | None = None) -> _Shaped:
    shape = {"rows": positive(row, "num_tokens"), "width": width}
    return op, shape if inputs is None else {**shape, "inputs": inputs}


def _norm(row: Row) -> _Shaped:
    return _wide("rms_norm" if row["use_gated_mlp"] else "layer_norm", row, positive(row, "n_embd"))


def _up(row: Row) -> _Shaped:
    copies = 2.0 if row["use_gated_mlp"] else 1.0
    return _gemm(row, copies * _share(row, "n_expanded_embd"), positive(row, "n_embd"))


def _activation(row: Row) -> _Shaped:
    width = _share(row, "n_expanded_embd")
    return (
        _wide("silu_mul", row, width, 2.0)
        if row["use_gated_mlp"]
        else _wide("gelu", row, width, 1.0)
    )


#: Sub-operator of the table to our word and its shape.
OPERATORS: Mapping[str, Callable[[Row], _Shaped]] = MappingProxyType(
    {
        "emb": lambda row: _wide("embedding", row, positive(row, "n_embd")),
        "input_layernorm": _norm,
        "post_attention_layernorm": _norm,
        "attn_pre_proj": lambda row: _gemm(row, _heads(row, 2.0), positive(row, "n_embd")),
        "attn_rope": lambda row: _wide("rope", row, _heads(row, 1.0)),
        "attn_post_proj": lambda row: _gemm(row, positive(row, "n_embd"), _share(row, "n_embd")),
        "mlp_up_proj": _up,
        "mlp_act": _activation,
        "mlp_down_proj": lambda row: _gemm(
            row, positive(row, "n_embd"), _share(row, "n_expanded_embd")
        ),
        "add": lambda row: _wide("add", row, positive(row, "n_embd"), 2.0),
    }
)
