"""Fit what is believed of a job's residual before the job is observed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.training.placement_fits.residual_fit import fit_prior
from perfmodel.training.placement_rows.sia_rows import sia_groups

COMMAND = "perfmodel fit-placement --part calibration"
SOURCE = "siasosp23/artifacts sia-simulator/traces (no licence stated)"
_STEPS = 12
_DIGITS = 6


def fit(data: Path, *, models: Path = Path("models"), steps: int = _STEPS) -> dict[str, Any]:
    """Fit the prior of residuals on every job and cluster.

    Parameters
    ----------
    data : Path
        Folder of the public tables.
    models : Path
        Folder of the trained models that predict single accelerators.
    steps : int
        Of the ascent.

    Returns
    -------
    dict
        ``constants``, and where they come from.
    """
    groups = sia_groups(data, models)
    return described(
        fit_prior(groups, steps=steps), sum(len(one.placements) for one in groups.values())
    )


def described(prior: ResidualPrior, rows: int) -> dict[str, Any]:
    """Return a prior as the fitted constants of a part."""
    return {
        "constants": _rounded(prior.to_dict()),
        "source": SOURCE,
        "rows": rows,
        "command": COMMAND,
        "date": datetime.now(tz=UTC).date().isoformat(),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return float(f"{value:.{_DIGITS}g}")
