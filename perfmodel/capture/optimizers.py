"""Optimizers by name, as a training step applies them.

All use PyTorch's for-each form, the default on CUDA, on every device: one captured graph then
stands for the step on all of them, and on a CPU the for-each operators run the same loop over
parameters inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from perfmodel.errors import InvalidInputError

Parameters = Iterable[torch.nn.Parameter]
Factory = Callable[[Parameters], torch.optim.Optimizer]


class Lamb(torch.optim.Optimizer):
    r"""Adam direction scaled per layer by a trust ratio.

    .. math:: w \leftarrow w - \eta \frac{\lVert w \rVert}{\lVert u \rVert} u, \qquad
              u = \frac{\hat m}{\sqrt{\hat v} + \epsilon} + \lambda w

    Parameters
    ----------
    lr : float
        Learning rate, eta.
    betas : tuple of float
        Decay of the first and second moment.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        lambda.

    References
    ----------
    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
    ICLR 2020, algorithm 2.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._update(group, params)
        return loss

    def _update(self, group: dict[str, Any], params: list[torch.Tensor]) -> None:
        first, second = self._moments(params)
        grads = [p.grad for p in params if p.grad is not None]
        group["steps"] = group.get("steps", 0) + 1
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(first, grads, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1 - beta2)
        root = torch._foreach_sqrt(torch._foreach_div(second, 1 - beta2 ** group["steps"]))
        torch._foreach_add_(root, group["eps"])
        unbiased = torch._foreach_div(first, 1 - beta1 ** group["steps"])
        update = list(torch._foreach_div(unbiased, root))
        torch._foreach_add_(update, params, alpha=group["weight_decay"])
        torch._foreach_mul_(update, _trust_ratios(params, update))
        torch._foreach_add_(params, update, alpha=-group["lr"])

    def _moments(self, params: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        for p in params:
            if not self.state[p]:
                self.state[p] = {
                    "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p),
                }  # fmt: skip
        return (
            [self.state[p]["exp_avg"] for p in params],
            [self.state[p]["exp_avg_sq"] for p in params],
        )


def _trust_ratios(params: list[torch.Tensor], update: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return ``|w| / |u|`` per parameter; 1 where either is zero, 10 at most."""
    weight = torch.stack(torch._foreach_norm(params))
    change = torch.stack(torch._foreach_norm(update))
    usable = (weight > 0) & (change > 0)
    ratio = torch.where(usable, weight / change, torch.ones_like(weight))
    return list(ratio.clamp_(max=10.0).unbind())


#: Optimizers by name.
OPTIMIZERS: Mapping[str, Factory] = MappingProxyType(
    {
        "sgd": lambda params: torch.optim.SGD(params, lr=1e-3, foreach=True),
        "momentum": lambda params: torch.optim.SGD(params, lr=1e-3, momentum=0.9, foreach=True),
        "adam": lambda params: torch.optim.Adam(params, lr=1e-4, foreach=True),
        "adamw": lambda params: torch.optim.AdamW(params, lr=1e-4, foreach=True),
        "adafactor": lambda params: torch.optim.Adafactor(params, lr=1e-3, foreach=True),
        "lamb": Lamb,
    }
)


def build_optimizer(choice: str | Factory, module: torch.nn.Module) -> torch.optim.Optimizer:
    """Make the optimizer of a module.

    Parameters
    ----------
    choice : str or callable
        A key of :data:`OPTIMIZERS`, or a callable from parameters to an optimizer.
    module : torch.nn.Module
        Its parameters that require gradients are optimised.

    Raises
    ------
    InvalidInputError
        An unknown name, or a module without parameters to train.
    """
    params = [p for p in module.parameters() if p.requires_grad]
    if not params:
        raise InvalidInputError(
            "A training step needs parameters that require gradients; the module has none. "
            "Unfreeze some, or use inference.",
            pointer="/mode",
        )
    if callable(choice):
        return choice(params)
    factory = OPTIMIZERS.get(choice)
    if factory is None:
        raise InvalidInputError(
            f"Unknown optimizer {choice!r}; use one of {', '.join(OPTIMIZERS)}, or pass a "
            "callable from parameters to an optimizer.",
            pointer="/optimizer",
            allowed=tuple(OPTIMIZERS),
        )
    return factory(params)
