r"""Pollux's form of the time of a data-parallel step: seven parameters a job.

With :math:`b` samples per replica on :math:`K` replicas and :math:`N` hosts,

.. math::

    T_{grad} &= \alpha_c + \beta_c\,b \\
    T_{sync} &= 0 \ (K = 1), \quad \alpha_r + \beta_r (K - 2) \ (N = 1),
        \quad \alpha_n + \beta_n (K - 2) \ (N > 1) \\
    T_{step} &= (T_{grad}^\gamma + T_{sync}^\gamma)^{1/\gamma}, \qquad 1 \le \gamma \le 10.

The exponent says how much of the synchronisation hides behind the computation: nothing at 1, all
of the shorter at infinity. The form knows no samples of other jobs and sees of a placement only
the two counts.

The fit minimises squared log errors of the step and, where it was measured, of the computation
alone. Weak terms hold what the observations leave open: exponents near 1, slopes small beside
their constants, a network like the links within a host.

Reference: Qiao et al., Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning,
OSDI 2021, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.least_squares import least_squares

_GAMMA_RANGE = 9.0
#: Standard deviations, in logs, of what the observations may leave open.
_LOOSE = 10.0
_LIKE_LOCAL = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PolluxParameters:
    """The seven parameters of one job on one kind of accelerator.

    Parameters
    ----------
    alpha_c, beta_c : float
        Computation: seconds of a step, seconds of a sample.
    alpha_n, beta_n : float
        Synchronisation over the network: seconds at two replicas, seconds of each further one.
    alpha_r, beta_r : float
        The same within one host.
    gamma : float
        Exponent of the overlap, in [1, 10].
    """

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float

    def compute_time_s(self, batch_size: npt.ArrayLike) -> FloatArray:
        """Return the time of the computation of a replica.

        Parameters
        ----------
        batch_size : array_like
            Samples of one replica.
        """
        return self.alpha_c + self.beta_c * np.asarray(batch_size, dtype=np.float64)

    def sync_time_s(self, hosts: npt.ArrayLike, replicas: npt.ArrayLike) -> FloatArray:
        """Return the time of the synchronisation, hidden or not."""
        count = np.asarray(replicas, dtype=np.float64)
        further = np.maximum(count - 2.0, 0.0)
        local = self.alpha_r + self.beta_r * further
        network = self.alpha_n + self.beta_n * further
        several = np.where(np.asarray(hosts) > 1, network, local)
        return np.where(count > 1, several, 0.0)

    def step_time_s(
        self, hosts: npt.ArrayLike, replicas: npt.ArrayLike, batch_size: npt.ArrayLike
    ) -> FloatArray:
        """Return the time of whole steps.

        Parameters
        ----------
        hosts, replicas, batch_size : array_like
            Hosts of the job, replicas on all of them, samples of one replica.

        Examples
        --------
        Without overlap (gamma 1): 1 + 2 * 10 s of work and 3 + 0.5 * 2 s between 4 replicas.

        >>> job = PolluxParameters(
        ...     alpha_c=1, beta_c=2, alpha_n=9, beta_n=9, alpha_r=3, beta_r=0.5, gamma=1
        ... )
        >>> float(job.step_time_s(1, 4, 10))
        25.0
        """
        compute = self.compute_time_s(batch_size)
        sync = self.sync_time_s(hosts, replicas)
        longer, shorter = np.maximum(compute, sync), np.minimum(compute, sync)
        # The longer one is taken out, so that no power overflows.
        return np.asarray(longer * (1.0 + (shorter / longer) ** self.gamma) ** (1.0 / self.gamma))


def fit_pollux(
    hosts: npt.ArrayLike,
    replicas: npt.ArrayLike,
    batch_size: npt.ArrayLike,
    step_time_s: npt.ArrayLike,
    compute_time_s: npt.ArrayLike | None = None,
) -> PolluxParameters:
    """Fit the seven parameters to observed steps of one job.

    Parameters
    ----------
    hosts, replicas, batch_size : array_like, shape (steps,)
    step_time_s : array_like, shape (steps,)
        Whole steps, > 0.
    compute_time_s : array_like or None
        Steps without what was logged as synchronisation, > 0.

    Raises
    ------
    InvalidInputError
        No step, or a time that is not above zero.
    """
    spread, count = (np.atleast_1d(np.asarray(c, dtype=np.float64)) for c in (hosts, replicas))
    samples = np.atleast_1d(np.asarray(batch_size, dtype=np.float64))
    steps = np.atleast_1d(np.asarray(step_time_s, dtype=np.float64))
    alone = None if compute_time_s is None else np.asarray(compute_time_s, dtype=np.float64)
    for times in (steps, alone):
        if times is not None and (len(times) == 0 or not np.all(times > 0)):
            raise InvalidInputError("Pollux's form is fitted to one or more times above zero.")
    start = _start(samples, steps if alone is None else alone, steps)

    def residuals(x: FloatArray) -> FloatArray:
        job = _parameters(x)
        parts = [np.log(job.step_time_s(spread, count, samples) / steps), _weak_terms(x, start)]
        if alone is not None:
            parts.append(np.log(job.compute_time_s(samples) / alone))
        return np.concatenate(parts)

    starts = [np.append(start, exponent) for exponent in (-2.0, 1.0)]
    fits = [least_squares(residuals, one) for one in starts]
    return _parameters(min(fits, key=lambda x: float(residuals(x) @ residuals(x))))


def _parameters(x: FloatArray) -> PolluxParameters:
    """Six logarithms, and the exponent between its bounds by the logistic function."""
    values = np.exp(np.clip(x[:6], -40.0, 40.0))
    gamma = 1.0 + _GAMMA_RANGE / (1.0 + np.exp(-np.clip(x[6], -40.0, 40.0)))
    names = PolluxParameters.__slots__
    return PolluxParameters(**dict(zip(names, [*values.tolist(), float(gamma)], strict=True)))


def _start(samples: FloatArray, compute_s: FloatArray, steps_s: FloatArray) -> FloatArray:
    """Half of the shortest computation is constant; the longest step hints at the rest."""
    shortest = float(compute_s.min())
    per_sample = float(np.median(compute_s / samples)) / 2
    wait = max(float(steps_s.max()) - shortest, 0.1 * shortest)
    values = [shortest / 2, per_sample, wait / 2, wait / 20, wait / 2, wait / 20]
    return np.asarray(np.log(values), dtype=np.float64)


def _weak_terms(x: FloatArray, start: FloatArray) -> FloatArray:
    return np.concatenate(
        [
            (x[:6] - start) / _LOOSE,
            [(x[2] - x[4]) / _LIKE_LOCAL / 3, (x[3] - x[5]) / _LIKE_LOCAL / 3, x[6] / _LOOSE],
        ]
    )
