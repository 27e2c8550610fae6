"""Reductions, scans and losses: so many operations per element of the input."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import (
    Attrs,
    Cost,
    OpClass,
    Tensors,
    largest_of,
    register,
    register_weights,
    streamed,
    weights_of,
)

#: Operations per input element by operator.
FLOPS_PER_ELEMENT: Mapping[str, int] = weights_of(
    {
        1: """
        sum nansum mean prod amax amin aminmax max min argmax argmin any all count_nonzero cumsum
        cumprod cummax cummin _cummax_helper _cummin_helper median nanmedian mode trace
        sum_to_size
    """,
        2: "norm linalg_vector_norm linalg_matrix_norm frobenius_norm dist _weight_norm_interface",
        4: """
        var std var_mean std_mean mse_loss smooth_l1_loss huber_loss cosine_similarity
        _weight_norm_interface_backward renorm soft_margin_loss
    """,
        10: "logsumexp logcumsumexp",
        20: """
        binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits kl_div
    """,
    }
)

register_weights(
    FLOPS_PER_ELEMENT,
    op_class=OpClass.REDUCTION,
    elements=lambda inputs, outputs: largest_of((*inputs, *outputs)),
)


@register("nll_loss_forward", "nll_loss2d_forward", "nll_loss", op_class=OpClass.REDUCTION)
def picked_loss(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the negative log-likelihood, which reads one score per target."""
    scores, target = inputs[:2]
    gathered = target.element_count * scores.size_bytes / max(1, scores.element_count)
    cost = streamed(2 * target.element_count, inputs[1:], outputs)
    return Cost(cost.flops, cost.bytes_read + gathered, cost.bytes_written)


@register("nll_loss_backward", "nll_loss2d_backward", op_class=OpClass.REDUCTION)
def picked_loss_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price its gradient, which writes all scores and reads the targets."""
    grad, _, *rest = inputs
    return streamed(inputs[2].element_count, (grad, *rest), outputs)


@register("_cdist_forward", "cdist", op_class=OpClass.REDUCTION)
def distances(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price pairwise distances: 3 operations per pair and coordinate."""
    return streamed(3 * outputs[0].element_count * inputs[0].shape[-1], inputs, outputs)


@register("_cdist_backward", op_class=OpClass.REDUCTION)
def distances_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of pairwise distances."""
    return streamed(4 * inputs[0].element_count * inputs[1].shape[-1], inputs, outputs)
