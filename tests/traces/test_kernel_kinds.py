"""What kernels are by their names."""

from __future__ import annotations

import pytest

from perfmodel.traces.kernel_kinds import fused_operators, kernel_kind
from perfmodel.traces.trace import KernelKind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", KernelKind.COLLECTIVE),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", KernelKind.COLLECTIVE),
        ("void at::(anonymous namespace)::multimem_all_reduce_kernel<T>()", KernelKind.COLLECTIVE),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", KernelKind.COLLECTIVE),
        ("void flashinfer::x::allreduce_fusion_kernel_oneshot<T>", KernelKind.COLLECTIVE),
        ("nvshmem_quiet_kernel", KernelKind.COLLECTIVE),
        ("void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int, int)", KernelKind.COLLECTIVE),
        ("kuserbuffers_pushsend(int*, int4*)", KernelKind.COLLECTIVE),
        ("CopyHostToDevice", KernelKind.COPY),
        ("CopyDeviceToHostRect", KernelKind.COPY),
        ("HIP_OP_ID_COPY", KernelKind.COPY),
        ("FillBuffer", KernelKind.MEMSET),
        ("CUDA_MEMCPY_KIND_DTOH", KernelKind.COPY),
        ("MEMORY_COPY_DEVICE_TO_HOST", KernelKind.COPY),
        ("Memcpy HtoD (Pinned -> Device)", KernelKind.COPY),
        ("Memset (Device)", KernelKind.MEMSET),
        ("void at::native::CatArrayBatchedCopy<float>", KernelKind.COMPUTE),
        ("void at::native::reduce_kernel<512, 1>", KernelKind.COMPUTE),
        ("CopyDeviceToDeviceKernel<float>", KernelKind.COMPUTE),
    ],
)
def test_kind(name: str, kind: KernelKind) -> None:
    assert kernel_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("triton_poi_fused_add_relu_0", "add_relu"),
        ("triton_mix_fused_native_layer_norm_1", "native_layer_norm"),
        ("triton_per_fused__log_softmax_3_0d1d2d3d4d5de6", "_log_softmax"),
        ("triton_poi_fused_clone_7.kd", "clone"),
        ("triton_poi_fused_0", ""),
        ("triton__0d1d2de", ""),
        ("triton_mm_plus_mm_4", None),
        ("triton_flash_attention", None),
        ("triton_attn_fwd", None),
        ("triton_red_fused_mean_9_runtime", "mean"),
        ("_attn_fwd", None),
        # Neither takes long.
        ("triton_poi_fused_add_1_" + "1" * 900 + "!", None),
        ("triton_poi_fused_" + "1" * 100_000, None),
    ],
)
def test_operators_of_fused_kernels(name: str, operators: str | None) -> None:
    assert fused_operators(name) == operators
