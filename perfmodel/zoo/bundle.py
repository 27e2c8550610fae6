"""The ModelBundle: a module with example inputs and a loss, ready to be captured or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    import torch

#: Devices a bundle can be built on: ``meta`` has shapes only, ``cpu`` has real numbers.
DEVICES = ("meta", "cpu")


@dataclass(frozen=True, kw_only=True)
class ModelBundle:
    """A module with one batch of example inputs and the loss that trains it.

    Parameters
    ----------
    module : torch.nn.Module
        The model, in training mode as constructed.
    args : tuple
        Positional inputs of ``module``, batch first.
    kwargs : mapping of str to object
        Keyword inputs of ``module``; holds the labels where the model computes its own loss.
    loss : callable
        Maps the output of ``module`` to the scalar tensor that training differentiates. Targets
        are held by the callable.
    family : str
        Models that are made of the same code; what "a family that was never seen" means.
    name : str
        As the user wrote it: ``"timm/resnet50"``.
    tokens_per_sample : int or None
        Sequence positions of one sample, encoder and decoder together; None for images.
    is_compiled : bool
        ``torch.compile`` made the module that was given; this is what it was given.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    loss: Callable[[Any], torch.Tensor]
    family: str
    name: str
    samples: int
    tokens_per_sample: int | None = None
    is_compiled: bool = False

    @property
    def parameter_count(self) -> int:
        """Number of distinct parameters (elements); shared ones count once."""
        return sum(parameter.numel() for parameter in self.module.parameters())


@contextmanager
def building_on(device: str) -> Iterator[None]:
    """Make modules and tensors on a device, with the same random numbers every time.

    On ``meta`` nothing is allocated and weight initialisation is skipped. On ``cpu`` the global
    random state is put back afterwards.

    Raises
    ------
    InvalidInputError
        Another device.
    """
    import torch

    if device == "meta":
        from perfmodel.zoo.meta_device import MetaDevice

        with MetaDevice():
            yield
    elif device == "cpu":
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(0)
            yield
    else:
        raise InvalidInputError(
            f"A model is built on 'meta' or 'cpu', got {device!r}; move the module of a 'cpu' "
            "bundle yourself to run it elsewhere.",
            allowed=DEVICES,
        )
