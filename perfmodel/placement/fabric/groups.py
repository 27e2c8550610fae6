"""Groups of accelerators that communicate, as columns: what a collective needs to know of links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import Columns, FloatArray, IntArray
from perfmodel.placement.topology.links import LinkClass


@dataclass(frozen=True, kw_only=True, slots=True)
class CommGroups(Columns):
    """Communication groups, one per element; all arrays broadcast against each other.

    Parameters
    ----------
    ranks : ndarray of float
        Accelerators of the group, >= 1.
    hosts : ndarray of float
        Hosts they are spread over, >= 1.
    largest_share : ndarray of float
        Ranks on the fullest of these hosts.
    intra_class, inter_class : ndarray of int
        :class:`LinkClass` inside a host and between hosts.
    intra_bytes_per_s : ndarray of float
        Of one accelerator to its neighbours in the host, one direction.
    intra_latency_s : ndarray of float
        Of one hop.
    inter_bytes_per_s : ndarray of float
        Of one host, one direction, shared by the groups that cross it at the same time and
        divided by oversubscription already; infinite where there is one host.
    """

    ranks: FloatArray
    hosts: FloatArray
    largest_share: FloatArray
    intra_class: IntArray
    inter_class: IntArray
    intra_bytes_per_s: FloatArray
    intra_latency_s: FloatArray
    inter_bytes_per_s: FloatArray
    inter_latency_s: FloatArray

    @classmethod
    def one_host(
        cls,
        ranks: npt.ArrayLike,
        link: LinkClass,
        bytes_per_s: npt.ArrayLike,
        latency_s: npt.ArrayLike = 3e-6,
    ) -> CommGroups:
        """Return groups inside one host.

        Examples
        --------
        >>> CommGroups.one_host([2, 8], LinkClass.NVSWITCH, 3e11).hosts.tolist()
        [1.0, 1.0]
        """
        count = np.asarray(ranks, dtype=np.float64)
        ones = np.ones(count.shape)
        return cls(
            ranks=count,
            hosts=ones,
            largest_share=count,
            intra_class=np.full(count.shape, int(link)),
            inter_class=np.full(count.shape, int(LinkClass.NONE)),
            intra_bytes_per_s=ones * np.asarray(bytes_per_s),
            intra_latency_s=ones * np.asarray(latency_s),
            inter_bytes_per_s=np.full(count.shape, np.inf),
            inter_latency_s=np.zeros(count.shape),
        )
