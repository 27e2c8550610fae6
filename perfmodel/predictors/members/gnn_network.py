r"""The network behind the GNN predictor: message passing, then one time per node.

For every node, from its embedding ``h_i`` after message passing over its producers and its
consumers::

    efficiency_i = sigmoid(a . h_i)                 in (0, 1)
    overhead_i   = 1 us * exp(b . h_i)              > 0
    t_i          = bound_i / efficiency_i + overhead_i
    step         = exp(c . s) * sum_i count_i * t_i

``bound_i`` is the lower bound of :mod:`perfmodel.features.roofline` and ``s`` the settings of
the workload, so that only what physics does not say has to be learned. A round of messages tells
every node the means of its neighbours, :math:`y_i = W \bar h_{N(i)} + b + V h_i` on both sides
(Hamilton, Ying, Leskovec, Inductive Representation Learning on Large Graphs, 2017).

Here it answers, with matrix products alone, one step at a time: an answer must not depend on what
else was asked. :mod:`.gnn_learning` has it learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from perfmodel.features.arrays import IntArray
from perfmodel.features.graph_data import Float32Array, StepData
from perfmodel.predictors.network_weights import Weights, check_shapes

OVERHEAD_UNIT_S = 1e-6
#: Limits of logarithms of the overhead, of logits, and of the logarithm of the step factor.
LOG_OVERHEAD, LOGIT, LOG_FACTOR = (-3.0, 16.0), (-12.0, 12.0), (-2.0, 2.0)
_NORM_EPSILON = 1e-5
#: Beyond it the exponential of a float32 overflows.
_MOST = 80.0
#: Edges of a node that are heard in turns with all other nodes; most nodes have no more.
_TURNS = 4


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Who tells whom.

    Parameters
    ----------
    hears : ndarray of int64, shape (hearers,)
    count : ndarray of float32, shape (hearers, 1)
        Edges of each.
    turns : sequence of (ndarray of int64, ndarray of int64)
        Positions in ``hears`` and who tells them: the first edge of each, the second, and so on.
    tells, first, last : ndarray of int64
        All further edges, in order of the hearers: who tells, where the edges of each hearer that
        has so many begin, and its position in ``hears``.
    """

    hears: IntArray
    count: Float32Array
    turns: Sequence[tuple[IntArray, IntArray]]
    tells: IntArray
    first: IntArray
    last: IntArray

    @classmethod
    def of(cls, edges: IntArray) -> Self:
        """Arrange edges, shape (2, edges): from and to."""
        order = np.argsort(edges[1], kind="stable")
        tells = edges[0, order]
        hears, first, count = np.unique(edges[1, order], return_index=True, return_counts=True)
        left = np.maximum(count - _TURNS, 0)
        turns = [np.flatnonzero(count > turn) for turn in range(_TURNS)]
        return cls(
            hears=hears,
            count=count.astype(np.float32)[:, None],
            turns=[(own, tells[first[own] + turn]) for turn, own in enumerate(turns)],
            tells=tells[np.arange(len(tells)) - np.repeat(first, count) >= _TURNS],
            first=(np.cumsum(left) - left)[left > 0],
            last=np.flatnonzero(left),
        )

    def means(self, state: Float32Array) -> Float32Array:
        """Return the mean of the neighbours of each node; zeros where there are none."""
        total = np.zeros((len(self.hears), state.shape[1]), dtype=np.float32)
        for own, tells in self.turns:
            total[own] += state[tells]
        if len(self.last):
            total[self.last] += np.add.reduceat(state[self.tells], self.first)
        found = np.zeros_like(state)
        found[self.hears] = total / self.count
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class StepNetwork:
    """Message passing over operators with an additive read-out.

    Parameters
    ----------
    weights : mapping of str to ndarray
        By the names that they bear where they are kept.
    """

    weights: Mapping[str, Weights]
    rounds: int

    @classmethod
    def of(
        cls,
        weights: Mapping[str, Weights],
        *,
        columns: int,
        settings: int,
        hidden: int,
        rounds: int,
    ) -> Self:
        """Make a network of weights.

        Parameters
        ----------
        columns : int
            Width of a node's feature row.
        settings : int
            How many of the last columns describe the workload, not the node.

        Raises
        ------
        ValueError
            Weights of another network.
        """
        check_shapes(weights, _shapes(columns, settings, hidden, rounds))
        return cls(weights=weights, rounds=rounds)

    def log_step(self, step: StepData) -> float:
        """Return the logarithm of the seconds of one step."""
        total = float(np.sum(self.node_times(step) * step.count, dtype=np.float64))
        settings = self.weights["step_factor.weight"].shape[1]
        return float(np.log(total) + self.log_factors(step.x[:1, -settings:])[0])

    def node_times(self, step: StepData) -> Float32Array:
        """Return the time of each class of nodes of one step in seconds, shape (classes,)."""
        reads, read_by = Neighbours.of(step.reads), Neighbours.of(step.read_by)
        standard = (step.x - self.weights["mean"]) / self.weights["scale"]
        state = self._linear("encode.2", _silu(self._linear("encode.0", standard)))
        for k in range(self.rounds):
            message = self._told(f"from_producers.{k}", state, reads)
            message += self._told(f"from_consumers.{k}", state, read_by)
            state = state + _silu(self._norm(f"norms.{k}", message))
        logit, overhead = self._linear("read_out.2", _silu(self._linear("read_out.0", state))).T
        inverse_efficiency = 1.0 + np.exp(-logit.clip(*LOGIT))
        unit_s = np.float32(OVERHEAD_UNIT_S)
        return np.asarray(
            step.bound_s * inverse_efficiency + unit_s * np.exp(overhead.clip(*LOG_OVERHEAD))
        )

    def log_factors(self, settings: Float32Array) -> Float32Array:
        """Return the logarithm of step time over node times, shape (steps,)."""
        count = settings.shape[1]
        scaled = (settings - self.weights["mean"][-count:]) / self.weights["scale"][-count:]
        return self._linear("step_factor", scaled)[:, 0].clip(*LOG_FACTOR)

    def _linear(self, name: str, rows: Float32Array) -> Float32Array:
        found = rows @ self.weights[f"{name}.weight"].T
        found += self.weights[f"{name}.bias"]
        return np.asarray(found)

    def _told(self, name: str, state: Float32Array, neighbours: Neighbours) -> Float32Array:
        heard = self._linear(f"{name}.lin_l", neighbours.means(state))
        heard += state @ self.weights[f"{name}.lin_r.weight"].T
        return heard

    def _norm(self, name: str, rows: Float32Array) -> Float32Array:
        centred = rows - rows.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + _NORM_EPSILON)
        normed = centred / spread * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return np.asarray(normed, dtype=np.float32)


def _silu(rows: Float32Array) -> Float32Array:
    return np.asarray(rows / (1.0 + np.exp(np.minimum(-rows, _MOST))), dtype=np.float32)


def _shapes(columns: int, settings: int, hidden: int, rounds: int) -> dict[str, tuple[int, ...]]:
    square, narrow = (hidden, hidden), (hidden,)
    sides = [f"{side}.{k}" for side in ("from_producers", "from_consumers") for k in range(rounds)]
    found: dict[str, tuple[int, ...]] = {
        "mean": (columns,),
        "scale": (columns,),
        "encode.0.weight": (hidden, columns),
        "read_out.2.weight": (2, hidden),
        "read_out.2.bias": (2,),
        "step_factor.weight": (1, settings),
        "step_factor.bias": (1,),
    }
    found |= dict.fromkeys(("encode.0.bias", "encode.2.bias", "read_out.0.bias"), narrow)
    found |= dict.fromkeys(("encode.2.weight", "read_out.0.weight"), square)
    found |= {f"{side}.lin_l.bias": narrow for side in sides}
    found |= {f"{side}.{part}.weight": square for side in sides for part in ("lin_l", "lin_r")}
    norms = [f"norms.{k}.{part}" for k in range(rounds) for part in ("weight", "bias")]
    return found | dict.fromkeys(norms, narrow)
