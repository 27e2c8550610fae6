"""The Program: one step of a job, as it is captured by shape and as it is timed.

The profilers run :meth:`Program.step` on real tensors, the capture runs the same method on
meta tensors, and so both see the same sequence of operators.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from perfmodel.capture.adapters import adapt, freeze
from perfmodel.capture.checkpointing import checkpoint_activations
from perfmodel.capture.optimizers import Factory, build_optimizer
from perfmodel.errors import InvalidInputError
from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.types import MemoryFormat, Mode, Phase, Precision

PhaseListener = Callable[[Phase], None]

#: Type that holds everything, for the precisions without fp32 parameters. fp8 and int8 quantise
#: at the matrix units only: their tensors between operators are bf16.
_STORAGE_DTYPES: Mapping[Precision, torch.dtype] = MappingProxyType(
    {
        Precision.FP16: torch.float16,
        Precision.BF16: torch.bfloat16,
        Precision.FP8: torch.bfloat16,
        Precision.INT8: torch.bfloat16,
    }
)

_AUTOCAST_DTYPES: Mapping[Precision, torch.dtype] = MappingProxyType(
    {Precision.AMP_FP16: torch.float16, Precision.AMP_BF16: torch.bfloat16}
)


@dataclass(frozen=True, kw_only=True)
class Program:
    """One step of a job; make it with :func:`make_program`.

    Parameters
    ----------
    module : torch.nn.Module
        In the mode, type and layout of the step.
    args, kwargs
        Inputs of one micro-batch.
    loss : callable or None
        Maps the module's output to a scalar; None for inference.
    optimizer : torch.optim.Optimizer or None
        None for inference.
    accumulation_steps : int
        Micro-batches per optimizer step, >= 1.
    """

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    mode: Mode = Mode.INFERENCE
    loss: Callable[[Any], Tensor] | None = None
    optimizer: torch.optim.Optimizer | None = None
    accumulation_steps: int = 1
    precision: Precision = Precision.FP32
    memory_format: MemoryFormat = MemoryFormat.CHANNELS_FIRST
    activation_checkpointing: bool = False

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """Type that ``amp_*`` casts to; None for the other precisions."""
        return _AUTOCAST_DTYPES.get(self.precision)

    @property
    def device(self) -> torch.device:
        """Device of the first parameter, buffer or input; the CPU where there is none."""
        tensors = chain(self.module.parameters(), self.module.buffers(), tensors_in(self.args))
        for tensor in tensors:
            return tensor.device
        return torch.device("cpu")

    def step(self, on_phase: PhaseListener | None = None) -> Any:
        """Run one whole step.

        Parameters
        ----------
        on_phase : callable or None
            Told each phase as it begins.

        Returns
        -------
        object
            Output of the module for inference, the last loss for training.
        """
        announce = on_phase or _ignore
        with _SHORTCUTS.off():
            if self.mode is Mode.INFERENCE:
                announce(Phase.FORWARD)
                with torch.no_grad(), self._autocast():
                    return self.module(*self.args, **self.kwargs)
            return self._train(announce)

    def _train(self, announce: PhaseListener) -> Tensor:
        if self.loss is None or self.optimizer is None:
            raise InvalidInputError(
                "A training program needs a loss and an optimizer; make it with make_program."
            )
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(self.accumulation_steps):
            announce(Phase.FORWARD)
            with self._autocast():
                loss = self.loss(self.module(*self.args, **self.kwargs))
                if self.accumulation_steps > 1:
                    loss = loss / self.accumulation_steps
            announce(Phase.BACKWARD)
            loss.backward()  # type: ignore[no-untyped-call]
        announce(Phase.OPTIMIZER)
        self.optimizer.step()
        return loss.detach()

    def _autocast(self) -> AbstractContextManager[Any]:
        device = self.device.type
        if self.autocast_dtype is None or device == "meta":
            # On meta tensors the capture applies the casts: autocast knows no such device.
            return nullcontext()
        return torch.autocast(device, dtype=self.autocast_dtype)


def make_program(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    mode: Mode,
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: str | Factory = "sgd",
    accumulation_steps: int = 1,
    precision: Precision = Precision.FP32,
    memory_format: MemoryFormat = MemoryFormat.CHANNELS_FIRST,
    activation_checkpointing: bool = False,
    adapter: LowRankAdapter | None = None,
    frozen: tuple[str, ...] = (),
) -> Program:
    """Prepare a module and its inputs for one step. The module itself is changed.

    Parameters
    ----------
    args, kwargs
        Inputs of one micro-batch; floating tensors are cast with the module.
    loss : callable or None
        Of the output; None takes its own ``loss`` where it has one, else the mean of its first
        floating tensor.
    optimizer : str or callable
        ``sgd``, ``momentum``, ``adam``, ``adamw``, ``adafactor``, ``lamb``, or a callable from
        parameters to an optimizer. Unused for inference.
    precision : Precision
        fp16, bf16, fp8 and int8 cast module and inputs; ``amp_*`` autocasts; tf32 is fp32 here.
    memory_format : MemoryFormat
        channels_last lays out 4-d weights and inputs so.
    activation_checkpointing : bool
        Recompute the module's blocks in the backward pass; training only.
    adapter : LowRankAdapter or None
        Put into the module, which is frozen.
    frozen : tuple of str
        Patterns of names of parameters that are not trained.

    Raises
    ------
    InvalidInputError
        An unknown optimizer, ``accumulation_steps`` < 1, nothing to train, no floating output,
        or int8 training.
    """
    mode, precision, memory_format = Mode(mode), Precision(precision), MemoryFormat(memory_format)
    _check(mode, precision, accumulation_steps)
    module.train(mode is Mode.TRAINING)
    if adapter is not None:
        adapt(module, adapter)
    freeze(module, frozen)
    how: dict[str, Any] = {"mode": mode, "precision": precision, "memory_format": memory_format}
    program = _laid_out(Program(module=module, args=tuple(args), kwargs=dict(kwargs or {}), **how))
    if mode is Mode.INFERENCE:
        return program
    if activation_checkpointing:
        checkpoint_activations(module)
    return replace(
        program,
        loss=loss or default_loss,
        optimizer=build_optimizer(optimizer, module),
        accumulation_steps=accumulation_steps,
        activation_checkpointing=activation_checkpointing,
    )


def _laid_out(program: Program) -> Program:
    """Return a program whose module and inputs have the type and the layout of its step."""
    dtype = _STORAGE_DTYPES.get(program.precision)
    channels_last = program.memory_format is MemoryFormat.CHANNELS_LAST
    _cast_module(program.module, dtype, channels_last)
    args, kwargs = (_prepared(one, dtype, channels_last) for one in (program.args, program.kwargs))
    return replace(program, args=args, kwargs=kwargs)


def default_loss(output: Any) -> Tensor:
    """Reduce an output to a scalar: its own loss, else the mean of its first floating tensor.

    Parameters
    ----------
    output : object
        Tensor, or a nest of tuples, lists, mappings and objects with a ``loss``.

    Raises
    ------
    InvalidInputError
        No floating tensor that depends on the parameters.
    """
    own = own_loss(output)
    if own is not None:
        return own
    for tensor in tensors_in(output):
        if tensor.requires_grad and tensor.is_floating_point():
            return tensor.mean()
    raise InvalidInputError(
        "The output holds no floating tensor that depends on the parameters, so there is nothing "
        "to train on; pass a loss.",
        pointer="/loss",
    )


def own_loss(output: Any) -> Tensor | None:
    """Return the loss that an output carries by that name; None where it carries none."""
    found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return found if isinstance(found, Tensor) else None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of a nest of tuples, lists, mappings and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from tensors_in(getattr(value, one.name))


def _check(mode: Mode, precision: Precision, accumulation_steps: int) -> None:
    if accumulation_steps < 1:
        raise InvalidInputError(
            f"accumulation_steps must be at least 1, got {accumulation_steps}.",
            pointer="/accumulation_steps",
        )
    if precision is Precision.INT8 and mode is Mode.TRAINING:
        raise InvalidInputError(
            "int8 serves inference only; train in another precision.", pointer="/precision"
        )


def _cast_module(module: nn.Module, dtype: torch.dtype | None, channels_last: bool) -> None:
    if dtype is not None:
        module.to(dtype=dtype)
    if channels_last:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _prepared(value: Any, dtype: torch.dtype | None, channels_last: bool) -> Any:
    if isinstance(value, Tensor):
        if dtype is not None and value.is_floating_point():
            value = value.to(dtype)
        if channels_last and value.dim() == 4:
            value = value.contiguous(memory_format=torch.channels_last)
        return value
    if isinstance(value, dict):
        return {key: _prepared(item, dtype, channels_last) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_prepared(item, dtype, channels_last) for item in value)
    return value


def _ignore(phase: Phase) -> None:
    """Listen to no phase."""


class _Shortcuts:
    """The fused encoder layer that nn.TransformerEncoder takes in inference only.

    It exists on some devices alone and hides the operators inside it. The switch is global, so
    it is off while any thread runs a step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = 0
        self._was_enabled = True

    @contextmanager
    def off(self) -> Iterator[None]:
        """Switch it off for one step."""
        with self._lock:
            if self._steps == 0:
                self._was_enabled = torch.backends.mha.get_fastpath_enabled()
                torch.backends.mha.set_fastpath_enabled(False)
            self._steps += 1
        try:
            yield
        finally:
            with self._lock:
                self._steps -= 1
                if self._steps == 0:
                    torch.backends.mha.set_fastpath_enabled(self._was_enabled)


_SHORTCUTS = _Shortcuts()
