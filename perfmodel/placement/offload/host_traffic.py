r"""Time that a training step needs beside its own for what lies in the memory of the host.

With copies of ``in`` bytes to and ``out`` bytes from an accelerator in one pass of computation c
over a link of bandwidth W to the host, which carries both directions at once, a pass takes

.. math:: \max(c,\; in / W,\; out / W).

Per micro-batch, of the parameters of a rank P, their gradients G and activations A::

    forward   in = P (parameters)                          out = A (activations)
    backward  in = P (parameters) + A (activations)        out = G (optimizer)

After the last backward pass the host updates the parameters whose state it keeps, those of all
ranks on it one after another at ``UPDATED_PER_S``, and sends them back, but where they stay there:

.. math:: update = n_{updated} / r + P / W .

Copies hide behind computation, updates behind nothing (no delayed update).

The rate of the host is that of ZeRO-Offload's Adam: 0.22 s for a billion and 2.57 s for ten
billion parameters on the host of a V100 (table 4 of the reference). Links reach four fifths of
their rate, about what NVIDIA's bandwidthTest shows of pinned memory (12.4 of 15.75, 25 of 31.5,
53 of 63 GB/s).

Left out: switches that several slots share, NUMA, chunks and buffers, pageable memory, and the
memory of the host itself, which is taken to be large enough.

Reference: Ren et al., ZeRO-Offload, 2021; Rajbhandari et al., ZeRO-Infinity, 2021;
``torch.distributed.fsdp.CPUOffload``; ``torch.autograd.graph.save_on_cpu``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fabric.host_link import slot_bytes_per_s

#: Parameters that Adam updates on a host in a second.
UPDATED_PER_S = 4e9
#: Share of the rate of a slot that copies of pinned memory reach.
_COPIED_SHARE = 0.8
#: NVIDIA's NVLink-C2C between a superchip and its own host, one direction.
_SUPERCHIP_BYTES_PER_S = 450e9
#: Form factors of one chip with its host, whose memory both use.
_SHARES_MEMORY = ("Module", "Integrated")


@dataclass(frozen=True, kw_only=True, slots=True)
class HostTraffic:
    """What one rank copies and its host updates; all zero where nothing is offloaded.

    Parameters
    ----------
    parameter_bytes, gradient_bytes, activation_bytes : float
        Of a rank, in one pass of one micro-batch.
    returned_bytes : float
        Updated parameters that go back to the rank, once a step.
    updated : float
        Parameters that the host updates in a step, for all of its ranks.
    """

    parameter_bytes: float = 0.0
    gradient_bytes: float = 0.0
    activation_bytes: float = 0.0
    returned_bytes: float = 0.0
    updated: float = 0.0

    @property
    def pass_bytes(self) -> float:
        """All that is copied in both passes of a micro-batch, in both directions."""
        return 2 * (self.parameter_bytes + self.activation_bytes) + self.gradient_bytes

    def exposed_s(
        self, forward_s: FloatArray, backward_s: FloatArray, bytes_per_s: float
    ) -> FloatArray:
        """Return what one micro-batch takes longer, seconds; of the shape of its passes.

        Examples
        --------
        Activations of 10 GB take 1 s each way beside passes of 0.4 and 0.8 s:

        >>> moved = HostTraffic(activation_bytes=10e9)
        >>> moved.exposed_s(np.array([0.4]), np.array([0.8]), 10e9).round(6).tolist()
        [0.8]
        """
        ahead = max(self.parameter_bytes, self.activation_bytes) / bytes_per_s
        back = max(self.parameter_bytes + self.activation_bytes, self.gradient_bytes) / bytes_per_s
        late = np.maximum(ahead - forward_s, 0.0) + np.maximum(back - backward_s, 0.0)
        return np.asarray(late)

    @property
    def update_s(self) -> float:
        """Time of the host for its updates."""
        return self.updated / UPDATED_PER_S


def copied_bytes_per_s(spec: AcceleratorSpec) -> float | None:
    """Return the rate of copies between an accelerator and its host, one direction.

    Returns
    -------
    float or None
        Bytes/s; None where nothing is known of the link, or the host has no memory of its own.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> copied_bytes_per_s(Catalog.default().get("A100-SXM4-80GB")) / 1e9
    25.2
    """
    if (spec.form_factor or "").startswith("Superchip"):
        return _COPIED_SHARE * _SUPERCHIP_BYTES_PER_S
    slot = slot_bytes_per_s(spec)
    is_shared = spec.kind == "cpu" or spec.form_factor in _SHARES_MEMORY
    return None if slot == float("inf") or is_shared else _COPIED_SHARE * slot
