"""Measure what a device of this machine reaches: matrix products per dtype, memory streams.

Each figure is the best of several repeats: a peak is an upper bound, and whatever else ran
meanwhile can only lower it. torch is used where it is installed, since it is what will run the
models; otherwise numpy, for fp32 and fp64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.devices.machine_load import LoadMeter, SystemLoad

#: Rates that are measured with torch, with the torch dtype of each.
_TORCH_DTYPES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "int8": "int8",
    "fp64": "float64",
}
_MIN_REPEATS = 3
#: Time to find out on a small product whether a dtype is slow. A product split over threads waits
#: for the slowest, so that one busy neighbour makes single calls a hundred times slower: the
#: budget must leave room for some calls that nobody disturbed.
_PROBE_BUDGET_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How long and how large to measure.

    Parameters
    ----------
    gemm_size : int
        Rows, columns and depth of the matrix products.
    gemm_budget_s : float
        Time for the repeats of one dtype.
    stream_bytes : int
        Size of each array of the streams; must exceed the last-level cache several times.
    stream_budget_s : float
        Time for the repeats of one kind of stream.
    """

    gemm_size: int = 2048
    gemm_budget_s: float = 0.8
    stream_bytes: int = 256 * 2**20
    stream_budget_s: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What was reached.

    Parameters
    ----------
    gemm_flops_per_s : dict of str to float
        Best rate per dtype, FLOP/s (int8: operations/s).
    bandwidth_bytes_per_s : float
        Best of the streams.
    engine : str
        What computed, for example ``"torch 2.13.0, 2 threads"``.
    other_share : float
        Share of the machine that others used meanwhile, in [0, 1].
    """

    gemm_flops_per_s: dict[str, float]
    bandwidth_bytes_per_s: float
    engine: str
    other_share: float = 0.0


def measure_cpu(effort: Effort, load: LoadMeter | None = None) -> Rates:
    """Measure matrix products and streams with torch, or with numpy where torch is absent."""
    load = load or SystemLoad()
    load.start()
    try:
        import torch
    except ImportError:
        rates = _measure_numpy(effort)
    else:
        rates = _measure_torch(torch, effort)
    return replace(rates, other_share=load.other_share())


def measure_accelerator(torch: Any, device: str, synchronise: Callable[[], object]) -> Rates:
    """Measure an accelerator of PyTorch; TF32 products apart from those of fp32.

    Parameters
    ----------
    device : str
        In its words: ``"cuda:0"``.
    synchronise : callable
        Waits until the device has done everything.
    """
    # Larger than any cache.
    effort = Effort(gemm_size=8192, stream_bytes=2**30)
    usual = torch.get_float32_matmul_precision()
    rates = {}
    with torch.inference_mode():
        for rate, dtype in {**_TORCH_DTYPES, "tf32": "float32"}.items():
            torch.set_float32_matmul_precision("high" if rate == "tf32" else "highest")
            reached = _torch_gemm(torch, getattr(torch, dtype), effort, device, synchronise)
            if reached is not None:
                rates[rate] = reached
        torch.set_float32_matmul_precision(usual)
        bandwidth = _torch_stream(torch, effort, device, synchronise)
    engine = f"torch {torch.__version__} on {device}"
    return Rates(gemm_flops_per_s=rates, bandwidth_bytes_per_s=bandwidth, engine=engine)


def best_time_s(run: Callable[[], object], *, budget_s: float) -> float:
    """Return the shortest wall time of a call, after one call that warms up.

    Parameters
    ----------
    budget_s : float
        Stop after this time, but not before three repeats; a warm-up that alone takes longer
        counts as the only repeat.
    """
    started = time.perf_counter()
    run()
    best = time.perf_counter() - started
    if best > budget_s:
        return best
    repeats = 0
    while repeats < _MIN_REPEATS or time.perf_counter() - started < budget_s:
        before = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - before)
        repeats += 1
    return best


def _measure_torch(torch: Any, effort: Effort) -> Rates:
    with torch.inference_mode():
        rates = {}
        for rate, dtype in _TORCH_DTYPES.items():
            reached = _torch_gemm(torch, getattr(torch, dtype), effort)
            if reached is not None:
                rates[rate] = reached
        bandwidth = _torch_stream(torch, effort)
    engine = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    return Rates(gemm_flops_per_s=rates, bandwidth_bytes_per_s=bandwidth, engine=engine)


def _done() -> object:
    """Wait for nothing: a CPU has done its work when a call returns."""
    return None


def _torch_gemm(
    torch: Any,
    dtype: Any,
    effort: Effort,
    device: str = "cpu",
    synchronise: Callable[[], object] = _done,
) -> float | None:
    """Return FLOP/s of ``n x n`` products, ``2 n^3 / time``; None if torch cannot do the dtype."""
    size = effort.gemm_size
    # A dtype without a fast kernel can be a thousand times slower: find out on a small product.
    probe = min(256, size)

    def best_s(extent: int, budget_s: float) -> float:
        product = _torch_product(torch, dtype, extent, device)
        return best_time_s(lambda: (product(), synchronise()), budget_s=budget_s)

    try:
        probe_s = best_s(probe, _PROBE_BUDGET_S)
    except (RuntimeError, NotImplementedError):
        return None
    if probe_s * (size / probe) ** 3 > 2 * effort.gemm_budget_s:
        return 2.0 * probe**3 / probe_s
    return 2.0 * size**3 / best_s(size, effort.gemm_budget_s)


def _torch_product(torch: Any, dtype: Any, size: int, device: str) -> Callable[[], object]:
    if dtype is torch.int8:
        left = torch.randint(-8, 8, (size, size), dtype=torch.int8, device=device)
        right = torch.randint(-8, 8, (size, size), dtype=torch.int8, device=device)
        return lambda: torch._int_mm(left, right)
    left = torch.randn(size, size, device=device).to(dtype)
    right = torch.randn(size, size, device=device).to(dtype)
    return lambda: torch.mm(left, right)


def _torch_stream(
    torch: Any, effort: Effort, device: str = "cpu", synchronise: Callable[[], object] = _done
) -> float:
    """Return the best bytes/s of triad (3 arrays), copy (2) and sum (1)."""
    count = effort.stream_bytes // 4
    a, b, c = (torch.ones(count, device=device) for _ in range(3))
    streams: tuple[tuple[int, Callable[[], object]], ...] = (
        (3, lambda: (torch.add(b, c, alpha=0.5, out=a), synchronise())),
        (2, lambda: (a.copy_(b), synchronise())),
        (1, lambda: (torch.sum(b), synchronise())),
    )
    return _best_stream(streams, effort)


def _measure_numpy(effort: Effort) -> Rates:
    # Imported here: reading the catalogue must not wait for it.
    import numpy as np

    rates = {}
    for rate, dtype in (("fp32", np.float32), ("fp64", np.float64)):
        rng = np.random.default_rng(0)
        left = rng.random((effort.gemm_size,) * 2).astype(dtype)
        out = np.empty_like(left)
        best_s = best_time_s(_numpy_product(left, out), budget_s=effort.gemm_budget_s)
        rates[rate] = 2.0 * effort.gemm_size**3 / best_s
    count = effort.stream_bytes // 4
    a, b, c = (np.ones(count, np.float32) for _ in range(3))
    streams: tuple[tuple[int, Callable[[], object]], ...] = (
        (3, lambda: np.add(b, c, out=a)),
        (2, lambda: np.copyto(a, b)),
        (1, lambda: np.sum(b)),
    )
    return Rates(
        gemm_flops_per_s=rates,
        bandwidth_bytes_per_s=_best_stream(streams, effort),
        engine=f"numpy {np.__version__}, streams on one thread",
    )


def _numpy_product(matrix: Any, out: Any) -> Callable[[], object]:
    import numpy as np

    return lambda: np.matmul(matrix, matrix, out=out)


def _best_stream(streams: tuple[tuple[int, Callable[[], object]], ...], effort: Effort) -> float:
    return max(
        arrays * effort.stream_bytes / best_time_s(run, budget_s=effort.stream_budget_s)
        for arrays, run in streams
    )
