r"""What a few records of a device say about all of its steps.

The residual of a step on a device is taken as linear in the shares of its time that are spent on
contractions, on traffic and on launches::

    log(t / t_predicted) = w . x + noise,   w ~ N(0, diag(prior)),   noise ~ N(0, s^2)

With k records the posterior of ``w`` is that of Bayesian linear regression; without any it is
the prior, which is how much devices differ that their facts do not tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray


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
        noise : ndarray, shape (records,)
            Variance of each residual that the device does not explain.

        Examples
        --------
        One feature, prior variance 1, one record 0.3 with noise 1: half of it is believed.

        >>> belief = DeviceEffect.unknown(np.ones(1))
        >>> belief = belief.given(np.ones((1, 1)), np.array([0.3]), np.ones(1))
        >>> belief.mean.tolist(), belief.covariance.tolist()
        ([0.15], [[0.5]])
        """
        shared = features @ self.covariance
        gain = np.linalg.solve(shared @ features.T + np.diag(noise), shared).T
        return DeviceEffect(
            mean=self.mean + gain @ (residuals - features @ self.mean),
            covariance=self.covariance - gain @ shared,
        )

    def at(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the residual of steps, shape (steps,) each."""
        variance = np.einsum("ij,jk,ik->i", features, self.covariance, features)
        return features @ self.mean, np.maximum(variance, 0.0)
