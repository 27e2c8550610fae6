r"""Memory traffic of a captured step that the equations of language models know nothing of.

The equations were fitted on models whose point-wise work is written in few kernels (MPT, GPT of
Megatron). A step whose activations, norms or rotations are written as many operators moves more,
and where each operator is a kernel of its own, that waits for the memory::

    excess = max(0, point-wise traffic of the graph - (a r l h + b r V + c P)) / bandwidth

for r tokens, l layers of width h, V words and P parameters. What the fitted models move was counted
in their captured steps (MPT of 125 million to 7 billion parameters, 16 bits mixed, AdamW), not
measured: per token, layer and feature a = 189 bytes, a third more where activations are computed
again; per token and word b = 42; per parameter, which is cast, c = 14.
"""

from __future__ import annotations

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.cost.base import OpClass
from perfmodel.placement.transformers.transformer_shape import TransformerShape

#: Classes of operators whose traffic the equations count themselves, or that move nothing.
_COUNTED = (OpClass.MATMUL, OpClass.ATTENTION, OpClass.OPTIMIZER, OpClass.VIEW)
_POINTWISE = np.array([one not in _COUNTED for one in OP_CLASSES])

_LAYER_BYTES, _WORD_BYTES, _PARAMETER_BYTES = 189.0, 42.0, 14.0
_RECOMPUTED = 4 / 3


def unfused_s(prepared: PreparedJob, shape: TransformerShape, spec: AcceleratorSpec) -> float:
    """Return the least time of what a step moves besides the fitted models, seconds.

    Parameters
    ----------
    prepared : PreparedJob
        A training job whose operators run one by one.
    shape : TransformerShape
        The transformer that it trains.
    """
    sketch = step_sketch(prepared.step.graph)
    traffic = float((sketch.traffic_bytes * sketch.count)[_POINTWISE[sketch.op_class]].sum())
    tokens = prepared.captured_samples * shape.sequence_length
    again = _RECOMPUTED if prepared.job.activation_checkpointing else 1.0
    fitted = (
        again * _LAYER_BYTES * tokens * shape.layers * shape.hidden_size
        + _WORD_BYTES * tokens * shape.vocabulary
        + _PARAMETER_BYTES * shape.parameter_count
    )
    excess = max(traffic - fitted, 0.0)
    return prepared.step.time_factor * excess / spec.bandwidth_bytes_per_s
