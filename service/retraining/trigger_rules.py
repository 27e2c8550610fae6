"""When this service lets a model be learned anew by itself, from its settings."""

from __future__ import annotations

from perfmodel.retraining.settings import parse_settings
from perfmodel.retraining.triggers import TriggerRules
from service.settings import Settings


def rules_of(settings: Settings) -> TriggerRules:
    """Return what starts a retraining.

    Raises
    ------
    InvalidInputError
        An expression that names no time, or settings that no retraining can have.
    MissingExtraError
        An expression, and nothing that reads it.
    """
    return TriggerRules(
        model=settings.retrain_model,
        cron=settings.retrain_cron,
        after_observations=settings.retrain_after_observations,
        after_records=settings.retrain_after_records,
        on_drift=settings.retrain_on_drift,
        least_s=settings.retrain_least_s,
        settings=parse_settings(settings.retrain_settings, pointer="/retrain_settings").to_dict(),
    )
