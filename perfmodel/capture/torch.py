"""Capture of a PyTorch program: the whole step as a Graph, without running it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from perfmodel.capture.program import Program, make_program, tensors_in
from perfmodel.capture.recording.autocast import AutocastPolicy
from perfmodel.capture.recording.autocast_regions import autocast_regions
from perfmodel.capture.recording.interposition import interposed
from perfmodel.capture.recording.meta_copy import Parts, meta_copy, on_meta
from perfmodel.capture.recording.recorder import PlaceholderValues, Recorder
from perfmodel.errors import CaptureError, PerfModelError, first_line
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode, Phase, Role


def capture(
    program: Program, *, source: Mapping[str, str] | None = None, most_nodes: int | None = None
) -> Graph:
    """Record every operator of one step, by shape alone.

    The step is the steady state: optimizer state exists before it. A program with real tensors
    is copied onto the meta device first and is neither changed nor run.

    Parameters
    ----------
    source : mapping of str to str
        Where it comes from; kept in :attr:`Graph.source` with the version of torch.
    most_nodes : int or None
        Operators that may be recorded; None: any number.

    Raises
    ------
    CaptureBudgetError
        There are more operators.
    CaptureError
        The step depends on the values of tensors, or fails for another reason, which is given.
    """
    recorder = Recorder(most_nodes=most_nodes)
    copied: Program | None = None
    try:
        copied = on_meta(program)
        _warm_up_optimizer(copied)
        parts = Parts.of(copied.module)
        _enter_known_tensors(recorder, copied, parts)
        _record(recorder, copied, parts)
        _mark_gradients(recorder, copied, parts)
    except PerfModelError:
        raise
    except Exception as error:
        raise CaptureError(_reason(error)) from error
    finally:
        if copied is not None:  # else the gradients are those of whoever brought the program
            _drop_gradients(copied)
    origin = {"framework": "torch", "torch": str(torch.__version__), **(source or {})}
    return recorder.graph(origin)


def capture_module(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    source: Mapping[str, str] | None = None,
    **make_program_kwargs: Any,
) -> Graph:
    """Record one step of a module, which is neither changed nor run.

    Parameters
    ----------
    args, kwargs
        Example inputs of one micro-batch, real or meta.
    **make_program_kwargs
        As of :func:`perfmodel.capture.program.make_program`; ``mode`` is required.

    Examples
    --------
    >>> from perfmodel.types import Mode
    >>> graph = capture_module(nn.Linear(3, 2), (torch.ones(5, 3),), mode=Mode.INFERENCE)
    >>> [node.op for node in graph.nodes]
    ['t', 'addmm']
    """
    loss = make_program_kwargs.pop("loss", None)
    module, args, kwargs, loss = copied_by_shape((module, tuple(args), dict(kwargs or {}), loss))
    program = make_program(module, args, kwargs, loss=loss, **make_program_kwargs)
    return capture(program, source=source)


T = TypeVar("T")


def copied_by_shape(parts: T) -> T:
    """Return a copy of modules, their inputs and whatever they hold, with tensors without data.

    Raises
    ------
    CaptureError
        Something among them cannot be copied.
    """
    try:
        copied: T = meta_copy(parts)
    except Exception as error:
        raise CaptureError(f"The module could not be copied by shape: {error}") from error
    return copied


def _record(recorder: Recorder, program: Program, parts: Parts) -> None:
    dtype = program.autocast_dtype
    policy = None if dtype is None else AutocastPolicy(dtype)

    def on_phase(phase: Phase) -> None:
        recorder.phase = phase
        if policy is not None:
            policy.start_phase(is_forward=phase is Phase.FORWARD)

    with ExitStack() as around:
        around.enter_context(_not_compiled())
        around.enter_context(_module_paths(recorder, parts))
        around.enter_context(interposed(policy))
        around.enter_context(autocast_regions())
        around.enter_context(recorder)
        program.step(on_phase)


def _warm_up_optimizer(program: Program) -> None:
    """Make the optimizer's state, which a step in the middle of training finds there."""
    if program.optimizer is None or program.optimizer.state:
        return
    params = [p for group in program.optimizer.param_groups for p in group["params"]]
    for param in params:
        param.grad = _shaped_like(param)
    with PlaceholderValues():  # type: ignore[no-untyped-call]
        program.optimizer.step()
    _drop_gradients(program)


def _shaped_like(param: torch.Tensor) -> torch.Tensor:
    """Make a gradient without data; PyTorch takes 20 us to work out the layout of each."""
    image = param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last)
    if image or param.is_contiguous():
        size, strides = param.shape, param.stride()
        return torch.empty_strided(size, strides, dtype=param.dtype, device=param.device)
    return torch.empty_like(param)


def _enter_known_tensors(recorder: Recorder, program: Program, parts: Parts) -> None:
    for parameter in parts.parameters:
        recorder.enter(parameter, Role.PARAMETER)
    for buffer in parts.buffers:
        recorder.enter(buffer, Role.BUFFER)
    for tensor in tensors_in((program.args, program.kwargs)):
        recorder.enter(tensor, Role.INPUT)
    if program.optimizer is not None:
        for tensor in tensors_in(list(program.optimizer.state.values())):
            recorder.enter(tensor, Role.OPTIMIZER_STATE)


def _mark_gradients(recorder: Recorder, program: Program, parts: Parts) -> None:
    """Tell the gradients of parameters, which persist, from those that flow through."""
    if program.mode is not Mode.TRAINING:
        return
    table = recorder.table
    gradients = {table.storage_number(p.grad) for p in parts.parameters if p.grad is not None}
    for index, storage in enumerate(table.storages):
        if storage in gradients and table.roles[index] is Role.ACTIVATION:
            table.roles[index] = Role.GRADIENT


def _drop_gradients(program: Program) -> None:
    if program.optimizer is not None:
        program.optimizer.zero_grad(set_to_none=True)


@contextmanager
def _module_paths(recorder: Recorder, parts: Parts) -> Iterator[None]:
    """Keep the recorder's module path while the module runs."""
    paths = parts.paths
    outer: list[str] = []

    def enter(child: nn.Module, args: Any) -> None:
        path = paths.get(child)
        if path is not None:
            outer.append(recorder.module_path)
            recorder.module_path = path

    def leave(child: nn.Module, args: Any, output: Any) -> None:
        if child in paths and outer:
            recorder.module_path = outer.pop()

    before = register_module_forward_pre_hook(enter)
    after = register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


#: What to do about failures that are common, by what their texts hold.
_CURES = MappingProxyType(
    {
        "not compiled with CUDA": (
            "Leave the device out, take that of an input (x.device), or ask "
            "torch.cuda.is_available() first: nothing is computed here."
        ),
        "SparseTensorImpl": (
            "Sparse gradients cannot be captured. Build embeddings with sparse=False; gradients of "
            "whole tables are counted then."
        ),
        "torch.nonzero()": (
            "How many elements are chosen follows from their values. Compute on all of them with a "
            "mask, or choose a fixed number, as topk does."
        ),
        "FlexAttention is only": "Put scaled_dot_product_attention in its place.",
    }
)


@contextmanager
def _not_compiled() -> Iterator[None]:
    """Run functions that ``torch.compile`` decorates as they are written.

    A compiler would compile the recorder with them. None is at work before its library is loaded.
    """
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def failure(error: BaseException) -> str:
    """Return in one line what a program failed with, and the cure where it is known."""
    text = f"{type(error).__name__}: {first_line(error)}"
    for fragment, cure in _CURES.items():
        if fragment in text:
            return f"{text[:120].rstrip('. ')}. {cure}"
    return text


#: How PyTorch refuses what needs the data of a tensor that has none.
_OF_VALUES = re.compile(r"\bmeta (?:tensor|device)|register_meta|device meta\b")


def _reason(error: Exception) -> str:
    text = first_line(error)
    if "`fused=True`" in text:
        return (
            "A fused optimizer checks the device of its parameters and cannot be captured by "
            "shape; use its for-each form (foreach=True), which does the same work."
        )
    if "Meta kernel" in text:
        return (
            "The step calls an operator whose shapes PyTorch does not tell without running it, "
            f"often since they depend on values: {failure(error)}"
        )
    if _OF_VALUES.search(text):
        return (
            "The step needs the values of tensors, which are unknown while it is captured by "
            f"shape: {failure(error)}"
        )
    return f"The step failed while it was captured by shape: {failure(error)}"
