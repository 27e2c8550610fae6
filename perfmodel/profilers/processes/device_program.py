"""A job's step on the device of a process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.graph.job import Job
from perfmodel.profilers.runtime import DeviceRuntime

if TYPE_CHECKING:
    from perfmodel.capture.program import Program
    from perfmodel.zoo.bundle import ModelBundle


def program_on(runtime: DeviceRuntime, bundle: ModelBundle, job: Job) -> Program:
    """Return the step of a job with module and inputs on a device."""
    from perfmodel.zoo.resolve import program_of

    device = runtime.torch_device
    module = bundle.module.to(device)
    args, kwargs = _moved(bundle.args, device), _moved(dict(bundle.kwargs), device)
    return program_of(replace(bundle, module=module, args=args, kwargs=kwargs), job)


def _moved(value: Any, device: str) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(inner, device) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_moved(inner, device) for inner in value)
    return value
