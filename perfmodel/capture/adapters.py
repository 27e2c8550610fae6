"""Adapters and frozen parameters: what of a module is trained, and what stands beside it.

The backward pass of a frozen layer multiplies once in place of twice: gradients of what goes in are
needed further ahead, those of its weights by nobody. PyTorch decides both, so that the captured
step has exactly the operators that run.

Left out: adapters held in fp32 beside a model in 16 bits, as peft does unless it is told otherwise,
and the copies that it keeps of ``modules_to_save``.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from torch import Tensor, nn

from perfmodel.errors import InvalidInputError
from perfmodel.graph.training_options.adapter import ALL_LINEAR, LowRankAdapter, is_named


class AdaptedLinear(nn.Module):
    """A frozen linear layer with two narrow ones beside it.

    Parameters
    ----------
    base : torch.nn.Module
        A layer with a matrix of weights.
    inputs, outputs : int
        Features that go in and come out.
    """

    def __init__(self, base: nn.Module, inputs: int, outputs: int, adapter: LowRankAdapter) -> None:
        super().__init__()
        like = base.get_parameter("weight")
        self.base = base
        self.dropout = nn.Dropout(adapter.dropout) if adapter.dropout else nn.Identity()
        self.down = nn.Linear(
            inputs, adapter.rank, bias=False, device=like.device, dtype=like.dtype
        )
        self.up = nn.Linear(adapter.rank, outputs, bias=False, device=like.device, dtype=like.dtype)

    @property
    def weight(self) -> nn.Parameter:
        """Weights of the frozen layer, for models that look at them."""
        return self.base.get_parameter("weight")

    def forward(self, x: Tensor) -> Tensor:
        """Add what the narrow layers make of the input, scaled, to what the frozen one does."""
        beside: Tensor = self.up(self.down(self.dropout(x))) * 2.0
        whole: Tensor = self.base(x) + beside
        return whole


def adapt(module: nn.Module, adapter: LowRankAdapter) -> None:
    """Put an adapter into a module and freeze all else.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place.

    Raises
    ------
    InvalidInputError
        A name that no module has, or that of a layer that is not linear.
    """
    targets = list(_targets(module, adapter))
    if not targets:
        raise InvalidInputError(
            f"No module is named by target_modules {adapter.target_modules!r}. Layers that can be "
            f"adapted are called {', '.join(_linear_names(module)) or '(there are none)'}.",
            pointer="/adapter/target_modules",
            allowed=_linear_names(module),
        )
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    for path, layer in targets:
        _put(module, path, layer, adapter)
    _unfreeze(module, adapter, {path for path, _ in targets})


def freeze(module: nn.Module, patterns: tuple[str, ...]) -> None:
    """Freeze the parameters whose names match a pattern.

    Parameters
    ----------
    patterns : tuple of str
        With ``*`` and ``?``.

    Raises
    ------
    InvalidInputError
        A pattern that matches no parameter.
    """
    names = dict(module.named_parameters())
    for position, pattern in enumerate(patterns):
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise InvalidInputError(
                f"No parameter's name matches {pattern!r}; they are called {next(iter(names), '')} "
                "and the like. Patterns may hold * and ?.",
                pointer=f"/frozen/{position}",
            )
        for name in found:
            names[name].requires_grad_(False)


def _targets(module: nn.Module, adapter: LowRankAdapter) -> Iterator[tuple[str, nn.Module]]:
    if adapter.target_modules == ALL_LINEAR:
        linear = [(path, one) for path, one in module.named_modules() if _features(one)]
        # The last one puts out words or classes, and has no adapter in peft.
        yield from linear[:-1]
        return
    for path, one in module.named_modules():
        if path and adapter.adapts(path):
            if _features(one) is None:
                raise InvalidInputError(
                    f"target_modules names {path}, a {type(one).__name__}; adapters are answered "
                    "for linear layers.",
                    pointer="/adapter/target_modules",
                    allowed=_linear_names(module),
                )
            yield path, one


def _features(module: nn.Module) -> tuple[int, int] | None:
    """Return the features that go into and come out of a linear layer; None for others."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    weight = getattr(module, "weight", None)
    # The linear layer of GPT-2 in transformers, whose weights are the other way round.
    if type(module).__name__ == "Conv1D" and isinstance(weight, Tensor) and weight.dim() == 2:
        return weight.shape[0], weight.shape[1]
    return None


def _linear_names(module: nn.Module) -> tuple[str, ...]:
    paths = (path for path, one in module.named_modules() if path and _features(one))
    return tuple(dict.fromkeys(path.rpartition(".")[2] for path in paths))


def _put(module: nn.Module, path: str, layer: nn.Module, adapter: LowRankAdapter) -> None:
    features = _features(layer)
    assert features is not None
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, AdaptedLinear(layer, *features, adapter))


def _unfreeze(module: nn.Module, adapter: LowRankAdapter, adapted: set[str]) -> None:
    """Let train what the adapter trains beside its own layers."""
    saved = [p for p, one in module.named_modules() if is_named(p, adapter.modules_to_save)]
    for path in saved:
        for parameter in module.get_submodule(path).parameters():
            parameter.requires_grad_(True)
    if len(saved) < len(adapter.modules_to_save):
        raise InvalidInputError(
            f"modules_to_save names {', '.join(adapter.modules_to_save)}, of which the model has "
            f"{', '.join(saved) or 'none'}.",
            pointer="/adapter/modules_to_save",
        )
    for name, parameter in module.named_parameters():
        owner = name.rpartition(".base.")[0] if ".base." in name else None
        if name.endswith("bias") and (
            adapter.bias == "all" or (adapter.bias == "lora_only" and owner in adapted)
        ):
            parameter.requires_grad_(True)
