"""What kind of work a kernel does, by its name."""

from __future__ import annotations

import re
from functools import lru_cache

from perfmodel.traces.trace import KernelKind

#: NCCL and RCCL (both prefix their kernels "nccl"), MSCCL(++), oneCCL, NVSHMEM, DeepEP, PyTorch's
#: symmetric memory, the buffers that Transformer Engine overlaps with products, and the all-reduces
#: that vLLM, SGLang, TensorRT-LLM and AITER bring themselves.
_COLLECTIVE = re.compile(
    r"\b(?:nccl|rccl|msccl|mscclpp|oneccl)\w*kernel|\bnccl(?:Dev|Sym)|ccl_?kernel"
    r"|cross_device_reduce|(?:one|two)_?shot_?all_?reduce|allreduce_prototype|quick_?reduce"
    r"|\bmultimem_(?:all|one|reduce)|\ballreduce_fusion|\bnvshmem|\bdeep_ep::|\bk?userbuffers_",
    re.IGNORECASE,
)
#: The HIP runtime copies and fills with kernels of its own. Nsight says "[CUDA memcpy HtoD]" and
#: "CUDA_MEMCPY_KIND_HTOD", rocprof "CopyHostToDevice", rocprofv2 "HIP_OP_ID_COPY" and rocprofv3
#: "MEMORY_COPY_HOST_TO_DEVICE".
_COPY = re.compile(
    r"^(?:__amd_rocclr_copy|(?:\[CUDA |CUDA_|hip)?memcpy|MEMORY_COPY|H(?:IP|SA)_OP_ID_COPY"
    r"|Copy(?:Host|Device)To(?:Host|Device)(?:2D|Rect|Async)?$)",
    re.IGNORECASE,
)
_MEMSET = re.compile(
    r"^(?:__amd_rocclr_fill|(?:\[CUDA |CUDA_|hip)?memset|FillBuffer$)", re.IGNORECASE
)
#: Characters of a name of TorchInductor, which lists ten operators at most.
_LONGEST = 1_000
#: Fused kernels of TorchInductor: kind, then the operators that it fused, then a number; Triton 2
#: adds which arguments it specialised. PyTorch 2.0 named all alike: ``triton__0d1d2de``.
_TRITON = re.compile(
    r"^triton_(?:(?:poi|red|per|tem|mm|for|cat|unk|mix|spl)_fused_(?P<ops>\w*?)_?\d+"
    r"(?:_(?:\d++(?:de|d|c|e)*+)++)?(?:_?[a-z]\w{0,7})?|(?:_(?:\d++(?:de|d|c|e)*+)++)?)(?:\.kd)?$"
)


@lru_cache(maxsize=65_536)
def kernel_kind(name: str) -> KernelKind:
    """Return the kind of a kernel.

    Examples
    --------
    >>> kernel_kind("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)").name
    'COLLECTIVE'
    >>> kernel_kind("__amd_rocclr_fillBufferAligned.kd").name
    'MEMSET'
    >>> kernel_kind("ampere_sgemm_128x64_nn").name
    'COMPUTE'
    """
    if _COLLECTIVE.search(name):
        return KernelKind.COLLECTIVE
    if _COPY.search(name):
        return KernelKind.COPY
    if _MEMSET.search(name):
        return KernelKind.MEMSET
    return KernelKind.COMPUTE


def fused_operators(name: str) -> str | None:
    """Return which operators a kernel of TorchInductor fuses, as its name lists them.

    Returns
    -------
    str or None
        None for any other kernel; ``""`` where the name lists none.

    Examples
    --------
    >>> fused_operators("triton_red_fused_add_mean_mul_pow_rsqrt_0")
    'add_mean_mul_pow_rsqrt'
    >>> fused_operators("triton_per_fused__softmax_3_0d1d2d3de4de5de")
    '_softmax'
    >>> fused_operators("ampere_sgemm_128x64_nn") is None
    True
    """
    found = _TRITON.match(name) if len(name) < _LONGEST else None
    return None if found is None else found["ops"] or ""
