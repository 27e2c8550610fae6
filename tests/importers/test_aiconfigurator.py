from pathlib import Path
from typing import Any

import pytest
from importers.tidy_tables import collective, write_rows

from perfmodel.importers.kernels.aiconfigurator import (
    DECODE_FILE,
    GEMM_FILE,
    MOE_FILE,
    PREFILL_FILE,
    read_aiconfigurator,
)

COMMON = {
    "device": "H100-SXM-80GB", "framework": "fw", "version": "1.2", "kernel_source": "fast",
    "latency_ms": 0.004,
}  # fmt: skip


def gemm(**changed: Any) -> dict[str, Any]:
    return {**COMMON, "gemm_dtype": "bfloat16", "m": 5, "n": 48, "k": 96, **changed}


def attention(**changed: Any) -> dict[str, Any]:
    plain = {
        "attn_dtype": "bfloat16", "kv_cache_dtype": "fp8", "batch_size": 3, "isl": 40,
        "num_heads": 12, "num_key_value_heads": 4, "head_dim": 64, "step": 0,
    }  # fmt: skip
    return {**COMMON, **plain, **changed}


def moe(**changed: Any) -> dict[str, Any]:
    plain = {
        "moe_dtype": "int4_wo", "num_tokens": 20, "hidden_size": 96, "inter_size": 160, "topk": 2,
        "num_experts": 10, "moe_tp_size": 2, "moe_ep_size": 5, "distribution": "power_law_1.1",
    }  # fmt: skip
    return {**COMMON, **plain, **changed}


def test_gemm_rows_name_type_and_implementation(tmp_path: Path) -> None:
    rows = [gemm(), gemm(gemm_dtype="int8_wo"), gemm(gemm_dtype="fp3")]
    imported = read_aiconfigurator(write_rows(tmp_path / GEMM_FILE, rows))
    first, second = imported.kernels
    assert (first.op, first.accelerator, first.dtype) == ("gemm", "H100-SXM5-80GB", "bf16")
    assert first.shape == {"m": 5, "n": 48, "k": 96}
    assert first.time_s == pytest.approx(4e-6)
    assert first.kernel == "fw 1.2 fast"
    assert second.dtype == "w8a16"
    assert "fp3" in imported.rejected[0].reason


def test_attention_rows_state_context_and_cache_type(tmp_path: Path) -> None:
    write_rows(tmp_path / PREFILL_FILE, [attention(), attention(num_key_value_heads=5)])
    write_rows(tmp_path / DECODE_FILE, [attention(isl=1, step=63)])
    imported = read_aiconfigurator(tmp_path)
    prefill, decode = imported.kernels
    assert prefill.shape == {
        "batch": 3, "tokens": 40, "context": 0, "heads": 12, "kv_heads": 4, "head_dim": 64,
        "kv_element_bytes": 1,
    }  # fmt: skip
    assert (decode.op, decode.shape["context"]) == ("attention_decode", 63)
    assert imported.rejected[0].file == PREFILL_FILE


def test_moe_rows_state_the_skew_of_the_load(tmp_path: Path) -> None:
    rows = [moe(), moe(distribution="balanced"), moe(distribution="zipf"), moe(topk=0)]
    imported = read_aiconfigurator(write_rows(tmp_path / MOE_FILE, rows))
    skewed, balanced = imported.kernels
    assert (skewed.shape["skew"], balanced.shape["skew"]) == (pytest.approx(1.1), 0)
    assert (skewed.shape["experts"], skewed.shape["expert_parallel"]) == (10, 5)
    assert [r.line for r in imported.rejected] == [3, 4]


def test_collectives_of_this_source_only(tmp_path: Path) -> None:
    rows = [
        collective(),
        collective(
            source="aiconfigurator", device="GB200", collective="alltoall", backend_version="2.3",
            kernel_source="RING",
        ),
    ]  # fmt: skip
    (found,) = read_aiconfigurator(write_rows(tmp_path / "collectives.parquet", rows)).collectives
    assert (found.collective, found.accelerator) == ("all_to_all", "GB200")
    assert found.backend == "nccl 2.3 RING"


def test_a_file_of_another_name_is_reported(tmp_path: Path) -> None:
    (rejected,) = read_aiconfigurator(write_rows(tmp_path / "other.parquet", [gemm()])).rejected
    assert (rejected.file, rejected.line) == ("other.parquet", 0)


def test_calls_with_a_window_that_is_not_stated_are_rejected(tmp_path: Path) -> None:
    long = {"batch_size": 8, "isl": 4096, "num_heads": 32, "num_key_value_heads": 32}
    # 4 * 8 * 32 * 64 * 4096 * 4097 / 2 = 5.5e11 FLOP take 0.56 ms at 989 TFLOP/s
    rows = [
        attention(latency_ms=1.0, **long),
        attention(latency_ms=0.95, **long),  # a repeat
        attention(latency_ms=0.7, **long),  # the same call, much faster
        attention(latency_ms=0.4, **{**long, "num_key_value_heads": 8}),  # beyond the peak
    ]
    imported = read_aiconfigurator(write_rows(tmp_path / PREFILL_FILE, rows))
    assert [k.origin.line for k in imported.kernels] == [1, 2]
    assert [r.line for r in imported.rejected] == [3, 4]
    assert "longer time" in imported.rejected[0].reason
    assert "peak" in imported.rejected[1].reason


def test_an_all_gather_of_oneccl_states_what_each_rank_contributes(tmp_path: Path) -> None:
    rows = [
        collective(source="aiconfigurator", collective="all_gather", backend=backend, num_gpus=4)
        for backend in ("oneccl", "nccl")
    ]
    rows.append({**rows[0], "collective": "reduce_scatter", "dtype": "half"})
    found = read_aiconfigurator(write_rows(tmp_path / "collectives.parquet", rows)).collectives
    # 4096 bytes from each of 4 ranks are gathered; the others state the whole buffer
    assert [one.size_bytes for one in found] == [4 * 4096, 4096, 4096]
    assert [one.dtype for one in found] == ["", "", "half"]
