"""Elementwise operators: so many operations per element, each operand streamed once.

The weights count what a vector unit executes, to the nearest few instructions: one for an
addition, multiplication, comparison or selection; 4 for a division or square root; 8 to 16 for
transcendental functions, which run as range reduction and a polynomial.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import OpClass, largest_of, register_weights, weights_of

#: Operations per element by operator.
FLOPS_PER_ELEMENT: Mapping[str, int] = weights_of(
    {
        1: """
        add sub rsub mul neg abs maximum minimum fmax fmin relu relu6 sign sgn positive ceil floor
        round trunc frac clamp clamp_min clamp_max hardtanh threshold eq ne lt le gt ge isnan
        isinf isfinite logical_and logical_or logical_not logical_xor bitwise_and bitwise_or
        bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__
        __lshift__ __rshift__ where masked_fill square
        threshold_backward hardtanh_backward nan_to_num heaviside signbit isposinf isneginf
        conj_physical conj copysign isclose
    """,
        2: """
        lerp addcmul leaky_relu _prelu_kernel prelu hardshrink softshrink
        leaky_relu_backward dropout native_dropout_backward _masked_scale
        hardshrink_backward softshrink_backward l1_loss polar complex
    """,
        4: """
        div true_divide floor_divide divide reciprocal sqrt rsqrt fmod remainder addcdiv
        hardswish hardsigmoid hardswish_backward hardsigmoid_backward _prelu_kernel_backward
        mse_loss_backward smooth_l1_loss_backward huber_loss_backward native_dropout feature_dropout
        rrelu_with_noise rrelu_with_noise_backward hypot
    """,
        8: "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh",
        10: """
        pow float_power sigmoid tanh atan2 asinh acosh atanh sigmoid_backward tanh_backward
        elu elu_backward celu selu sinc logaddexp logaddexp2 xlogy glu glu_backward angle
    """,
        16: """
        gelu gelu_backward silu silu_backward mish mish_backward erf erfc erfinv softplus
        softplus_backward log_sigmoid_forward log_sigmoid_backward logit logit_backward lgamma
        digamma special_expit special_log1p i0
    """,
    }
)

#: Gradients through a saved output need no function evaluation.
_CHEAP_GRADIENTS = {"sigmoid_backward": 3, "tanh_backward": 3, "glu_backward": 12}

register_weights(
    {**FLOPS_PER_ELEMENT, **_CHEAP_GRADIENTS},
    op_class=OpClass.ELEMENTWISE,
    elements=lambda inputs, outputs: largest_of(outputs),
)
