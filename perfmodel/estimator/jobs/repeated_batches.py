r"""Steps of several micro-batches, told from the graph of one.

Micro-batches of a step are alike but for the first, whose gradients nothing is added to. Of a step
of one micro-batch the optimizer is a share o, and adding all gradients to others would take a
share a of it, so that a step of n micro-batches takes

.. math:: T_n / T_1 = o + (1 - o)\,n + \min(a, o)\,(n - 1)

times as long: no longer than n steps of one micro-batch, which do all of it and n optimizers. What
was measured of a job is known by its step of one micro-batch, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.memory.memory_profile import MemoryProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedBatches:
    """A step of more micro-batches than its graph has, which is one.

    Parameters
    ----------
    count : int
        Micro-batches of the step, >= 1.
    """

    count: int

    def time_factor(self, one: StepProfile) -> float:
        """Return how many times as long as the step of one micro-batch the whole one takes."""
        once = one.optimizer_share
        return once + (1.0 - once) * self.count + self._added(one)

    def _added(self, one: StepProfile) -> float:
        """Return what adding gradients up takes, over the step of one micro-batch."""
        return min(one.adding_share, one.optimizer_share) * (self.count - 1)

    def profile(self, one: StepProfile) -> StepProfile:
        """Return the profile of the whole step.

        Gradients are ready in the last micro-batch, so that as much time as before is left behind
        each of them, of a longer step.
        """
        longer, more = self.time_factor(one), self.count
        additions = len(one.gradient_piece_bytes) * (more - 1)
        return replace(
            one,
            input_bytes=one.input_bytes * more,
            node_count=one.node_count * more + additions,
            forward_share=one.forward_share * more / longer,
            backward_share=(one.backward_share * more + self._added(one)) / longer,
            optimizer_share=one.optimizer_share / longer,
            gradient_ready=1.0 - (1.0 - one.gradient_ready) / longer,
        )

    def memory(self, one: MemoryProfile) -> MemoryProfile:
        """Return what the memory of the whole step is made of.

        From the second micro-batch on the gradients of the ones before are there all the time, and
        a new one only until it is added to them.
        """
        new = np.minimum(one.gradient_corners, one.largest_parameter_bytes)
        return replace(
            one,
            activation_corners=(one.activation_corners + new).max(keepdims=True),
            gradient_corners=np.array([one.gradient_bytes]),
        )
