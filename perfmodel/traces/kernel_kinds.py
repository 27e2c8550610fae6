"""What a kernel is, told by its name where the format has no column for it."""

from __future__ import annotations

import re

from perfmodel.traces.trace import KernelKind

#: Names of NCCL, RCCL, MSCCL and of symmetric-memory collectives.
_COLLECTIVE = re.compile(
    r"nccl|rccl|msccl|(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)_?kernel"
    r"|cross_device_reduce",
    re.IGNORECASE,
)
#: ``[CUDA memcpy HtoD]`` of Nsight, ``Memcpy DtoD`` of Kineto, ``CopyDeviceToHost`` of rocprof.
_COPY = re.compile(
    r"^\[?(?:CUDA )?memcpy|^__amd_rocclr_copy|^MEMORY_COPY|^Copy(?:Host|Device)|^MemcpyD|^MemcpyH",
    re.IGNORECASE,
)
_MEMSET = re.compile(r"^\[?(?:CUDA )?memset|^__amd_rocclr_fill|^FillBuffer", re.IGNORECASE)


def kernel_kind(name: str) -> KernelKind:
    """Return what a kernel of a name does.

    ROCm copies and sets memory by kernels of its runtime where no copy engine serves; those count
    as copies and sets, as the same work does on other devices.

    Examples
    --------
    >>> kernel_kind("ncclDevKernel_AllReduce_Sum_f32_RING_LL").name
    'COLLECTIVE'
    >>> kernel_kind("__amd_rocclr_fillBufferAligned.kd").name, kernel_kind("sgemm_128x64").name
    ('MEMSET', 'COMPUTE')
    """
    if _COPY.search(name):
        return KernelKind.COPY
    if _MEMSET.search(name):
        return KernelKind.MEMSET
    return KernelKind.COLLECTIVE if _COLLECTIVE.search(name) else KernelKind.COMPUTE
