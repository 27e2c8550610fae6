"""A module of one's own: from a Python file, or at hand, with the shapes of its inputs."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from perfmodel.capture.program import own_loss, tensors_in
from perfmodel.capture.torch import failure
from perfmodel.errors import CaptureError, InvalidInputError
from perfmodel.zoo.bundle import ModelBundle, building_on
from perfmodel.zoo.libraries import declare_torchvision_operators
from perfmodel.zoo.losses import output_tensors

_SHAPE = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<shape>[1-9]\d*(?:x[1-9]\d*)*)(?::(?P<dtype>\w+))?"
)
_DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool")


def bundle_of_file(
    path: Path, name: str, *, inputs: str | None = None, batch_size: int | None = None
) -> ModelBundle:
    """Run a Python file and return the model that it calls by a name, with a batch of inputs.

    Parameters
    ----------
    path : Path
        It is run as a module, so that what stands below ``if __name__ == "__main__"`` is not; it
        may import its neighbours.
    name : str
        A module, or what makes one without arguments: a class or a function, which may return its
        inputs too, as ``(module, args)`` or ``(module, args, kwargs)``. Where it can be, it is
        called on the meta device, so that nothing is allocated.
    inputs : str or None
        Shapes as :func:`read_inputs` takes them; None where the function returns them.
    batch_size : int or None
        Stands for the first extent of all inputs that share that of the first one.

    Raises
    ------
    InvalidInputError
        There is no such file or name, or it is no model; inputs that are missing or given twice.
    CaptureError
        The file, or what it names, fails; with the reason.
    """
    declare_torchvision_operators()
    named = _named(_run(path), path, name)
    module, args, kwargs = _made(named, f"{path.name}:{name}")
    if inputs is not None and (args or kwargs):
        raise InvalidInputError(f"{path.name}:{name} returns its inputs; leave --inputs out.")
    if inputs is not None:
        args, kwargs = read_inputs(inputs, batch_size)
    return bundle_of_module(module, args, kwargs, name=f"{path.name}:{name}", batch_size=batch_size)


def bundle_of_module(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    batch_size: int | None = None,
) -> ModelBundle:
    """Return a module with its inputs, as models of the zoo are.

    The first tensor among the inputs, however nested, says how many samples they are. It trains
    on the loss that its output carries (as models of transformers do, given labels), or else on
    the mean square of all that it puts out.

    Parameters
    ----------
    batch_size : int or None
        Is checked against the inputs.

    Raises
    ------
    InvalidInputError
        No inputs, or another number of samples.
    """
    first = next((one for one in tensors_in((args, kwargs or {})) if one.dim()), None)
    if first is None:
        raise InvalidInputError(
            f"{name or 'The module'} needs inputs: give their shapes, batch first, as in "
            '--inputs "8x3x224x224", or let the function return (module, args).'
        )
    if batch_size is not None and first.shape[0] != batch_size:
        raise InvalidInputError(
            f"The inputs of {name or 'the module'} hold {first.shape[0]} samples, but the batch "
            f"size is {batch_size}. Leave the batch size out.",
            pointer="/job/batch_size",
        )
    plain = getattr(module, "_orig_mod", module)
    is_text = not first.is_floating_point() and first.dim() == 2
    return ModelBundle(
        module=plain,
        args=tuple(args),
        kwargs=dict(kwargs or {}),
        loss=_loss,
        family=type(plain).__name__,
        name=name or type(plain).__name__,
        samples=int(first.shape[0]),
        tokens_per_sample=int(first.shape[1]) if is_text else None,
        is_compiled=plain is not module,
    )


def read_inputs(
    text: str, batch_size: int | None = None
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """Read shapes of inputs, and return tensors of them without data.

    Parameters
    ----------
    text : str
        Joined by commas: ``8x3x224x224``, ``8x128:int64``, ``input_ids=8x128:int64``. Without a
        type they are ``float32``.
    batch_size : int or None
        Replaces the first extent of all that have that of the first one.

    Raises
    ------
    InvalidInputError
        A shape or type that is none.

    Examples
    --------
    >>> args, kwargs = read_inputs("1x3x8x8, mask=1x4:bool", 16)
    >>> tuple(args[0].shape), kwargs["mask"].dtype
    ((16, 3, 8, 8), torch.bool)
    """
    args: list[torch.Tensor] = []
    kwargs: dict[str, torch.Tensor] = {}
    batch: int | None = None
    for part in (part.strip() for part in text.split(",")):
        found = _SHAPE.fullmatch(part)
        if found is None or (found["dtype"] or "float32") not in _DTYPES:
            raise InvalidInputError(
                f"An input is a shape with the batch first, such as 8x3x224x224 or "
                f"input_ids=8x128:int64; got {part!r}. Types: {', '.join(_DTYPES)}.",
                allowed=_DTYPES,
            )
        shape = [int(extent) for extent in found["shape"].split("x")]
        batch = batch or shape[0]
        if batch_size is not None and shape[0] == batch:
            shape[0] = batch_size
        dtype = getattr(torch, found["dtype"] or "float32")
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        if found["name"]:
            kwargs[found["name"]] = tensor
        else:
            args.append(tensor)
    return tuple(args), kwargs


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInputError(f"There is no file {str(path)!r}.")
    spec = importlib.util.spec_from_file_location(f"perfmodel_own_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    sys.path.insert(0, str(path.parent.resolve()))
    with _foreign_code(f"Running {path}", argv=[str(path)]):
        try:
            spec.loader.exec_module(found)
        finally:
            sys.path.pop(0)
    return found


@contextmanager
def _foreign_code(what: str, *, argv: list[str] | None = None) -> Iterator[None]:
    """Run code of the user, which prints to standard error and sees no options of this command.

    Raises
    ------
    CaptureError
        It fails, or wants to end the process.
    """
    own = sys.argv
    sys.argv = argv or own[:1]
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{what} failed: {failure(error)}") from error
    finally:
        sys.argv = own


def _named(module: ModuleType, path: Path, name: str) -> Any:
    if not hasattr(module, name):
        own = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__ or isinstance(value, nn.Module)
        ]
        raise InvalidInputError(
            f"{path.name} has no {name!r}. It has: {', '.join(own) or 'nothing of its own'}."
        )
    return getattr(module, name)


def _made(named: Any, label: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return the module of a name with the inputs that come with it, if any."""
    made = named
    if callable(named) and not isinstance(named, nn.Module):
        needed = _needed(named)
        if needed:
            raise InvalidInputError(
                f"{label} is called without arguments, but needs {', '.join(needed)}. Write a "
                "function without any that makes the model."
            )
        made = _called(named, label)
    parts = made if isinstance(made, tuple) else (made,)
    module, args, kwargs = (*parts, (), {})[:3] if len(parts) == 1 else (*parts, {})[:3]
    if not isinstance(module, nn.Module):
        raise InvalidInputError(
            f"{label} is no torch.nn.Module and makes none; got {type(module).__name__}."
        )
    listed = args if isinstance(args, tuple | list) else (args,)
    return module, tuple(listed), dict(kwargs)


def _called(factory: Any, label: str) -> Any:
    with _foreign_code(label):
        try:
            with building_on("meta"):
                return factory()
        except Exception:  # it needs values, which the meta device has not
            return factory()


def _needed(factory: Any) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in kinds]


def _loss(output: Any) -> torch.Tensor:
    own = own_loss(output)
    if own is not None:
        return own
    tensors = output_tensors(output)
    if not tensors:
        raise CaptureError("The module puts out no floating-point tensor to train on.")
    return torch.stack([tensor.float().square().mean() for tensor in tensors]).sum()
