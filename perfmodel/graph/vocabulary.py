"""Canonical operator names: one name for what different devices call differently.

A graph is captured without a device, but a device picks its own kernel for attention,
batch normalisation or recurrent layers and a profiler reports that kernel's name. Both sides
translate through :func:`canonical_op` and so meet in one vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ATTENTION_VARIANTS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)

#: Device-specific ATen name, or full name elsewhere -> name in the graph.
SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        **{name: "scaled_dot_product_attention" for name in _ATTENTION_VARIANTS},
        **{
            f"{name}_backward": "scaled_dot_product_attention_backward"
            for name in _ATTENTION_VARIANTS
        },
        "cudnn_batch_norm": "native_batch_norm",
        "miopen_batch_norm": "native_batch_norm",
        "_native_batch_norm_legit": "native_batch_norm",
        "_native_batch_norm_legit_no_training": "native_batch_norm",
        "_batch_norm_with_update": "native_batch_norm",
        "_batch_norm_no_update": "native_batch_norm",
        "cudnn_batch_norm_backward": "native_batch_norm_backward",
        "miopen_batch_norm_backward": "native_batch_norm_backward",
        "batch_norm_backward": "native_batch_norm_backward",
        "cudnn_convolution": "convolution",
        "miopen_convolution": "convolution",
        "mkldnn_convolution": "convolution",
        "thnn_conv2d": "convolution",
        "_conv_depthwise2d": "convolution",
        "_slow_conv2d_forward": "convolution",
        "slow_conv3d_forward": "convolution",
        "_slow_conv2d_backward": "convolution_backward",
        "_safe_softmax": "_softmax",
        # What mixtures of experts run where aten::_grouped_mm does not take their type.
        "transformers::grouped_mm_fallback": "_grouped_mm",
        "_unsafe_view": "view",
        "_reshape_alias": "view",
    }
)


def canonical_op(name: str) -> str:
    """Translate a dispatcher or profiler name into the graph's vocabulary.

    Parameters
    ----------
    name : str
        ``"aten::addmm"``, ``"aten::add.Tensor"`` or a name that is canonical already.

    Returns
    -------
    str
        Name without the ``aten`` namespace and without the overload; other namespaces stay.

    Examples
    --------
    >>> canonical_op("aten::add_.Tensor")
    'add_'
    >>> canonical_op("aten::_scaled_dot_product_flash_attention_for_cpu")
    'scaled_dot_product_attention'
    >>> canonical_op("mylib::fused_thing")
    'mylib::fused_thing'
    """
    namespace, separator, bare = name.rpartition("::")
    bare = bare.split(".", 1)[0]
    if separator and namespace != "aten":
        bare = f"{namespace}::{bare}"
    return SYNONYMS.get(bare, bare)
