"""Where the fit of a prior of residuals starts, and which terms it has.

Laid down by hand after looking at Sia's tables, all of them: round numbers, no fit.
"""

from __future__ import annotations

from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior

START = ResidualPrior(
    means={
        "device": 0.4, "host": 0.6, "spread": -0.2, "alone": 0.1, "fixed": 0.0,
        "communication": 1.5, "one_host": 0.5, "tail": -1.2, "window": 0.3,
    },
    sds={
        "device.level.place": 0.3,
        "device.level.job": 0.4,
        "device.level.own": 0.2,
        "device.batch_slope.own": 0.05,
        "device.batch_curve.own": 0.15,
        "host.level.place": 0.5,
        "host.level.job": 0.6,
        "host.level.own": 0.4,
        "host.batch_curve.own": 0.3,
        "spread.alone.place": 0.05,
        "spread.alone.job": 0.05,
        "spread.alone.own": 0.05,
        "spread.share_slope_of_batch.own": 0.08,
        "spread.host_slope.own": 0.03,
        "spread.placement_of_batch.own": 0.08,
        "fixed.level.place": 1.0,
        "fixed.level.own": 0.5,
        "fixed.batch_curve.own": 0.2,
        "communication.level.place": 0.8,
        "communication.level.job": 0.5,
        "communication.level.own": 0.5,
        "communication.one_host.place": 0.8,
        "communication.one_host.own": 0.2,
        "communication.share_slope.place": 0.2,
        "communication.share_slope.own": 0.1,
        "communication.host_slope.place": 0.1,
        "communication.host_slope.own": 0.1,
        "communication.hosts.place": 0.15,
        "communication.hosts.own": 0.1,
        "communication.rank_slope.place": 0.2,
        "communication.rank_slope.own": 0.1,
        "communication.placement.place": 0.15,
        "communication.placement.own": 0.1,
        "communication.batch_curve.own": 0.1,
        "tail.level.job": 0.6,
        "tail.level.own": 0.6,
        "window.level.place": 0.3,
        "window.level.job": 0.2,
        "window.level.own": 0.6,
    },
    noise=Noise(compute=0.03, sync=0.016, sync_share=0.15),
)  # fmt: skip
