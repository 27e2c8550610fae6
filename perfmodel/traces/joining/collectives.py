"""Kernels that are collectives by what launched them, whatever they call themselves."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perfmodel.traces.trace import KernelKind, Trace

#: What process groups of PyTorch note around the launch of a collective: ``nccl:all_reduce``,
#: ``xccl:broadcast``, ``hccl:...``. Operators that they call meanwhile are calls of their own.
_CALLS = re.compile(r"record_param_comms$|\w*ccl:\w+")


def with_collectives(trace: Trace) -> Trace:
    """Return a trace whose kernels are collectives where a collective launched them itself."""
    names = np.array([_CALLS.match(name) is not None for name in trace.names], dtype=np.bool_)
    kernels = trace.kernels
    called = np.flatnonzero((kernels.operator >= 0) & (kernels.kind == KernelKind.COMPUTE))
    found = called[names[trace.operators.name[kernels.operator[called]]]]
    if not len(found):
        return trace
    kind = kernels.kind.copy()
    kind[found] = KernelKind.COLLECTIVE
    return replace(trace, kernels=replace(kernels, kind=kind))
