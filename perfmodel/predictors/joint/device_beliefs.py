r"""What is believed about the devices themselves, before and after a few records of them.

The residual of a step on a device is taken as linear in the shares of its time that are spent on
contractions, on traffic and on launches::

    log(t / t_predicted) = w . x + noise,   w ~ N(0, diag(prior)),   noise ~ N(0, s^2)

With k records the posterior of ``w`` is that of Bayesian linear regression; without any it is
the prior, which is how much devices differ that their facts do not tell apart.

These coefficients are not the same in all regimes: kernels of the backward pass, those that a
compiler writes and those of full precision, which take other units of the device, are others. A
device has a set of coefficients in each regime, and sets of two regimes correlate by ``r``::

    cov(w_a, w_b) = r(a, b) (diag(prior) + common)
    r(a, b) = 0.8 ^ [modes differ] * 0.9 ^ [compilers differ] * 0.8 ^ [one of full precision]

so that records of inference say something about training, but not everything.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.predictors.joint.joint_regimes import Regime

#: Variance that all effects of a device share, beyond the facts: its clocks, its host.
_COMMON_VARIANCE = 0.15**2
#: How much wider than that devices are believed to lie where records are weighed: some are unlike
#: all others, and records say so.
BEFORE_RECORDS = 3.0
#: Samples after which half of the variance of a device is gone; what one in another mode counts.
_HALF_LEARNED, _OTHER_MODE = 3.0, 0.1
#: Modes and compilers in which a device has coefficients of its own.
_MODES, _COMPILERS = ("inference", "training"), ("eager", "fused")
#: Precisions likewise: reduced ones, and fp32.
_PRECISIONS = 2
#: How far coefficients of a device agree where the mode, the compiler or the precision is another.
_ACROSS_MODES, _ACROSS_COMPILERS, _ACROSS_PRECISIONS = 0.8, 0.9, 0.8
#: Sets of coefficients that a device has.
SETS = len(_MODES) * len(_COMPILERS) * _PRECISIONS


def _alike(*across: float) -> FloatArray:
    """Return how far sets agree, in the order of their numbers."""
    alike: FloatArray = np.ones((1, 1))
    for one in across:
        alike = np.asarray(np.kron(alike, [[1.0, one], [one, 1.0]]), dtype=np.float64)
    return alike


_ALIKE = _alike(_ACROSS_MODES, _ACROSS_COMPILERS, _ACROSS_PRECISIONS)


@dataclass(frozen=True, kw_only=True)
class DeviceEffect:
    """Gaussian belief about the coefficients of one device.

    Parameters
    ----------
    mean : ndarray, shape (features,)
    covariance : ndarray, shape (features, features)
    """

    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def unknown(cls, prior: FloatArray) -> DeviceEffect:
        """Return what is known of a device without records."""
        return cls(mean=np.zeros(len(prior)), covariance=np.diag(prior))

    def given(self, features: FloatArray, residuals: FloatArray, noise: FloatArray) -> DeviceEffect:
        """Return the belief after some records.

        Parameters
        ----------
        features : ndarray, shape (records, features)
        residuals : ndarray, shape (records,)
            log(measured / predicted).
        noise : ndarray, shape (records,) or (records, records)
            Variance of each residual that the device does not explain, or their covariance.

        Examples
        --------
        One feature, prior variance 1, one record 0.3 with noise 1: half of it is believed.

        >>> belief = DeviceEffect.unknown(np.ones(1))
        >>> belief = belief.given(np.ones((1, 1)), np.array([0.3]), np.ones(1))
        >>> belief.mean.tolist(), belief.covariance.tolist()
        ([0.15], [[0.5]])
        """
        shared = features @ self.covariance
        beside = np.diag(noise) if noise.ndim == 1 else noise
        gain = np.linalg.solve(shared @ features.T + beside, shared).T
        return DeviceEffect(
            mean=self.mean + gain @ (residuals - features @ self.mean),
            covariance=self.covariance - gain @ shared,
        )

    def at(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the residual of steps, shape (steps,) each."""
        variance = np.einsum("ij,jk,ik->i", features, self.covariance, features)
        return features @ self.mean, np.maximum(variance, 0.0)


class DeviceBeliefs:
    """Effects of devices: prior, records of training, records since.

    Parameters
    ----------
    prior : ndarray, shape (effects,)
        Variance of each effect between devices with equal facts.
    learned : mapping of (device, kind, mode, compiler) to int
        Samples of each group in training, whatever the framework.
    effects : mapping of str to DeviceEffect
        Of devices of which records were taken into account since.
    """

    def __init__(
        self,
        prior: FloatArray,
        learned: Mapping[Regime, int],
        effects: Mapping[str, DeviceEffect] | None = None,
        records: Mapping[str, int] | None = None,
    ) -> None:
        self.prior = prior
        self.learned = dict(learned)
        self.effects = dict(effects or {})
        self.records = dict(records or {})
        self._of_device = Counter[str]()
        for group, count in self.learned.items():
            self._of_device[group[0]] += count

    def shift(
        self, group: Regime, shares: FloatArray, *, full: bool = False
    ) -> tuple[float, float]:
        """Return what records of a device add to a log time, and the variance they leave.

        Parameters
        ----------
        group : tuple of str
            Device, kind, mode, compiler and, which changes nothing, framework.
        shares : ndarray, shape (effects,)
            Of the effects in the time of the step.
        full : bool
            It computes in fp32.
        """
        effect = self.effects.get(group[0])
        if effect is None:
            effect = self._unknown(self._unlearned(group))
        mean, variance = effect.at(features([group], shares[None, :], [full]))
        return float(mean[0]), float(variance[0])

    def _unlearned(self, group: Regime) -> float:
        """Share of the spread of devices that the samples of a device leave, in [0, 1].

        Samples in another mode or under another compiler tell less about the device.
        """
        own = self.learned.get(group[:4], 0)
        others = self._of_device[group[0]] - own
        return _HALF_LEARNED / (_HALF_LEARNED + own + _OTHER_MODE * others)

    def given(
        self, device: str, features: FloatArray, residuals: FloatArray, noise: FloatArray
    ) -> DeviceBeliefs:
        """Return the beliefs after some more records of a device; see :class:`DeviceEffect`."""
        after = copy.copy(self)
        effect = self.before_records(device).given(features, residuals, noise)
        after.effects = self.effects | {device: effect}
        after.records = self.records | {device: self.records.get(device, 0) + len(residuals)}
        return after

    def without(self, devices: Collection[str]) -> DeviceBeliefs:
        """Return the beliefs without any record of some devices since training."""
        before = copy.copy(self)
        before.effects = {name: e for name, e in self.effects.items() if name not in devices}
        before.records = {name: n for name, n in self.records.items() if name not in devices}
        return before

    def before_records(self, device: str) -> DeviceEffect:
        """Return what further records of a device are weighed against."""
        known = self.effects.get(device)
        if known is not None:
            return known
        return self._unknown(BEFORE_RECORDS * self.unlearned(device))

    def unlearned(self, device: str) -> float:
        """Return the share of what is peculiar to a device that its training leaves, in [0, 1]."""
        return _HALF_LEARNED / (_HALF_LEARNED + self._of_device[device])

    def _unknown(self, share: float) -> DeviceEffect:
        own = np.diag(self.prior) + _COMMON_VARIANCE
        covariance = np.asarray(share * np.kron(_ALIKE, own), dtype=np.float64)
        return DeviceEffect(mean=np.zeros(len(covariance)), covariance=covariance)

    def warnings(self, device: str) -> tuple[str, ...]:
        """Say what the answers for a device rest on, unless it is its training records alone."""
        known, count = device in self._of_device, self.records.get(device, 0)
        if device in self.effects:
            records = {0: "a few records", 1: "1 record"}.get(count, f"{count} records")
            beside = "those of training" if known else "its specification and other devices"
            return (f"The answer takes {records} of {device} into account, beside {beside}.",)
        if known:
            return ()
        return (
            f"The model has learned from no step on {device}: the answer rests on its "
            "specification and on other devices.",
        )


def features(
    groups: Sequence[Regime], shares: FloatArray, full: Sequence[bool] | None = None
) -> FloatArray:
    """Return what the coefficients of a device act on, shape (steps, sets x effects).

    Parameters
    ----------
    groups : sequence of (device, kind, mode, compiler)
    shares : ndarray, shape (steps, effects)
        They stand in the set of the regime; all others are zero.
    full : sequence of bool or None
        Which steps compute in fp32; None: none.

    Examples
    --------
    >>> features([("A", "gpu", "training", "eager")], np.array([[0.7, 0.3]]))[0, 8:10]
    array([0.7, 0.3])
    """
    effects = shares.shape[1]
    placed = np.zeros((len(groups), SETS, effects))
    for row, (_, _, mode, compiler, *_) in enumerate(groups):
        own = _MODES.index(mode) * len(_COMPILERS) + _COMPILERS.index(compiler)
        placed[row, own * _PRECISIONS + bool(full is not None and full[row])] = shares[row]
    return placed.reshape(len(groups), SETS * effects)


def regimes_alike(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return how far the regimes of steps agree, shape (left, right).

    Parameters
    ----------
    left, right : ndarray, shape (steps, sets x effects)
        From :func:`features`.
    """
    return np.asarray(_ALIKE[np.ix_(_set_of(left), _set_of(right))], dtype=np.float64)


def _set_of(placed: FloatArray) -> IntArray:
    return np.asarray(np.abs(placed).reshape(len(placed), SETS, -1).sum(axis=2).argmax(axis=1))
