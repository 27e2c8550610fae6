"""What became of answers: residuals of observations, and the alarms that they raise."""

from perfmodel.store.feedback.alarm_records import Alarm, AlarmState, Doubt, Remedy
from perfmodel.store.feedback.alarm_store import AlarmStore
from perfmodel.store.feedback.residual_records import StoredResidual, Uncompared
from perfmodel.store.feedback.residual_store import ResidualStore

__all__ = [
    "Alarm",
    "AlarmState",
    "AlarmStore",
    "Doubt",
    "Remedy",
    "ResidualStore",
    "StoredResidual",
    "Uncompared",
]
