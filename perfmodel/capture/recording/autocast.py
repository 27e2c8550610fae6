"""CUDA's autocast policy, applied to meta tensors.

Which operator runs in which type is PyTorch's documented table for CUDA. Weights are cast once
per forward pass, as autocast's own cache does. In the backward pass autocast is off on a real
device except where a checkpointed block is recomputed, and that is where gradients are enabled.

Left out: the gradient scaler of fp16 training.

References
----------
PyTorch documentation, "Automatic Mixed Precision package", CUDA op-specific behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

_LOWER = """
    addbmm addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot linalg_vecdot conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution conv_tbc linear
    matmul mm mv prelu gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention einsum
"""

_FLOAT32 = """
    __rpow__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist
    cosine_similarity cross_entropy_loss dist erfinv exp expm1 group_norm hinge_embedding_loss
    kl_div l1_loss layer_norm native_layer_norm log log10 log1p log2 margin_ranking_loss
    mse_loss multilabel_margin_loss multi_margin_loss nll_loss nll_loss_nd norm pdist
    poisson_nll_loss pow reciprocal renorm rsqrt sinh smooth_l1_loss huber_loss soft_margin_loss
    softplus tan triplet_margin_loss linalg_vector_norm linalg_matrix_norm fft_fft fft_ifft
    fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn fft_rfftn
    fft_irfftn stft
"""

_FLOAT32_RESULT = """
    cumprod cumsum log_softmax prod softmax sum
"""

_WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put scatter_add tensordot
    cat stack
"""


class AutocastPolicy:
    """Casts of one ``amp_*`` capture.

    Parameters
    ----------
    dtype : torch.dtype
        ``float16`` or ``bfloat16``.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.in_forward = True
        self._cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def is_active(self) -> bool:
        """Whether operators are cast at this point of the step."""
        return self.in_forward or torch.is_grad_enabled()

    def start_phase(self, *, is_forward: bool) -> None:
        """Forget cast weights; cast everything in a forward pass, recomputation elsewhere."""
        self.in_forward = is_forward
        self._cache.clear()

    def lower(self, value: Any) -> Any:
        """Cast the eligible tensors in an argument to the lower type."""
        return _mapped(value, self._lowered)

    def _lowered(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == self.dtype or not _is_eligible(tensor):
            return tensor
        if not (tensor.requires_grad and tensor.is_leaf and tensor.dtype is torch.float32):
            return tensor.to(self.dtype)
        known = self._cache.get(id(tensor))
        if known is None:
            known = self._cache[id(tensor)] = (tensor, tensor.to(self.dtype))
        return known[1]


def _is_eligible(tensor: torch.Tensor) -> bool:
    return tensor.is_meta and tensor.is_floating_point() and tensor.dtype is not torch.float64


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change) for item in value]
    return value


def _to_float32(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is torch.float32 or not _is_eligible(tensor):
        return tensor
    return tensor.to(torch.float32)


def _cast_lower(policy: AutocastPolicy, args: Any, kwargs: Any) -> tuple[Any, Any]:
    # Last operand first, the order in which PyTorch's own kernels cast.
    lowered = {k: policy.lower(v) for k, v in kwargs.items()}
    return [policy.lower(value) for value in reversed(args)][::-1], lowered


def _cast_float32(policy: AutocastPolicy, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return _mapped(args, _to_float32), {k: _mapped(v, _to_float32) for k, v in kwargs.items()}


def _result_float32(policy: AutocastPolicy, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if _is_eligible(args[0]) and kwargs.get("dtype") is None:
        given = any(isinstance(value, torch.dtype) for value in args)
        kwargs = kwargs if given else {**kwargs, "dtype": torch.float32}
    return args, kwargs


def _cast_widest(policy: AutocastPolicy, args: Any, kwargs: Any) -> tuple[Any, Any]:
    found: set[torch.dtype] = set()

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if _is_eligible(tensor):
            found.add(tensor.dtype)
        return tensor

    _mapped(args, note)
    return _cast_float32(policy, args, kwargs) if len(found) > 1 else (args, kwargs)


_Cast = Callable[[AutocastPolicy, Any, Any], tuple[Any, Any]]


def interposed_casts() -> Iterator[tuple[str, torch._ops.OpOverload, _Cast]]:
    """Yield every operator overload that autocast touches, with the cast of its arguments.

    Yields
    ------
    tuple
        Name for registration, overload, cast.
    """
    for names, cast in (
        (_LOWER, _cast_lower),
        (_FLOAT32, _cast_float32),
        (_FLOAT32_RESULT, _result_float32),
        (_WIDEST, _cast_widest),
    ):
        for name in names.split():
            yield from _overloads(name, cast)


def _overloads(name: str, cast: _Cast) -> Iterator[tuple[str, torch._ops.OpOverload, _Cast]]:
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        arguments = getattr(packet, overload)._schema.arguments
        if any(
            entry.name in ("out", "dimname") or "Dimname" in str(entry.type) for entry in arguments
        ):
            continue
        if cast is _result_float32 and all(entry.name != "dtype" for entry in arguments):
            continue
        yield (
            name if overload == "default" else f"{name}.{overload}",
            getattr(packet, overload),
            cast,
        )
