from pathlib import Path
from typing import Any

import pytest
from importers.tidy_tables import collective, write_rows

from perfmodel.importers.kernels.vidur import FILE, OPERATORS, read_vidur


def row(**changed: Any) -> dict[str, Any]:
    """Return a row of a made-up gated model: 6 heads of 4 on 24, 2 key heads, inner width 40."""
    plain: dict[str, Any] = {
        "device": "A40", "op": "attn_pre_proj", "median_ms": 0.5, "num_tokens": 9,
        "num_tensor_parallel_workers": 2, "n_head": 6, "n_kv_head": 2, "n_embd": 24,
        "n_expanded_embd": 40, "use_gated_mlp": True,
    }  # fmt: skip
    return {**plain, **changed}


def test_extents_follow_from_the_model_and_the_degree(tmp_path: Path) -> None:
    rows = [row(op=op) for op in OPERATORS]
    kernels = read_vidur(write_rows(tmp_path / FILE, rows)).kernels
    found = dict(zip(OPERATORS, ((k.op, dict(k.shape)) for k in kernels), strict=True))
    # (6 + 2*2) / 2 heads of 24/6 = 4 columns each: 20
    assert found["attn_pre_proj"] == ("gemm", {"m": 9, "n": 20, "k": 24})
    assert found["attn_post_proj"] == ("gemm", {"m": 9, "n": 24, "k": 12})
    assert found["mlp_up_proj"] == ("gemm", {"m": 9, "n": 40, "k": 24})  # gated: 2 * 40 / 2
    assert found["mlp_down_proj"] == ("gemm", {"m": 9, "n": 24, "k": 20})
    assert found["attn_rope"] == ("rope", {"rows": 9, "width": 16})  # (6 + 2) / 2 * 4
    assert found["mlp_act"] == ("silu_mul", {"rows": 9, "width": 20, "inputs": 2})
    assert found["input_layernorm"] == ("rms_norm", {"rows": 9, "width": 24})
    assert found["add"] == ("add", {"rows": 9, "width": 24, "inputs": 2})
    assert kernels[0].time_s == pytest.approx(0.5e-3)
    assert {k.dtype for k in kernels} == {"fp16"}


def test_an_ungated_model_has_one_up_projection_and_a_layer_norm(tmp_path: Path) -> None:
    rows = [row(op=op, use_gated_mlp=False) for op in ("mlp_up_proj", "input_layernorm", "mlp_act")]
    up, norm, act = read_vidur(write_rows(tmp_path / FILE, rows)).kernels
    assert up.shape["n"] == 20
    assert (norm.op, act.op) == ("layer_norm", "gelu")


def test_extents_that_do_not_divide_are_rejected(tmp_path: Path) -> None:
    rows = [row(num_tensor_parallel_workers=7), row(op="attn_cache"), row(median_ms=None)]
    imported = read_vidur(write_rows(tmp_path / FILE, rows))
    assert not imported.kernels
    assert [r.line for r in imported.rejected] == [1, 2, 3]
    assert "divide" in imported.rejected[0].reason


def test_collectives_of_this_source_only(tmp_path: Path) -> None:
    rows = [
        collective(),
        collective(source="aiconfigurator"),
        collective(num_gpus=1),
        collective(collective="gossip"),
    ]
    write_rows(tmp_path / "collectives.parquet", rows)
    imported = read_vidur(tmp_path)
    (found,) = imported.collectives
    assert (found.collective, found.ranks, found.hosts, found.topology) == (
        "all_reduce", 2, 1, "pairs"
    )  # fmt: skip
    assert found.time_s == pytest.approx(12e-6)
    assert found.size_bytes == 4096
    assert [r.line for r in imported.rejected] == [3, 4]
