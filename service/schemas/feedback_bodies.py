"""The bodies of answers about drift."""

from __future__ import annotations

from perfmodel.client import feedback
from service.schemas.from_dataclass import EXACT, model_of

AlarmRemedyEntry = model_of(feedback.AlarmRemedy, "AlarmRemedyEntry", config=EXACT)
AlarmDoubtEntry = model_of(feedback.AlarmDoubt, "AlarmDoubtEntry", config=EXACT)
DriftAlarmEntry = model_of(feedback.DriftAlarm, "DriftAlarmEntry", config=EXACT)
AlarmsAcknowledgedAnswer = model_of(
    feedback.AlarmsAcknowledged, "AlarmsAcknowledgedAnswer", config=EXACT
)
DriftGroupEntry = model_of(feedback.DriftGroup, "DriftGroupEntry", config=EXACT)
DriftReporterEntry = model_of(feedback.DriftReporter, "DriftReporterEntry", config=EXACT)
DriftPointEntry = model_of(feedback.DriftPoint, "DriftPointEntry", config=EXACT)
DriftAnswer = model_of(feedback.Drift, "DriftAnswer", config=EXACT)
DriftCampaignEntered = model_of(feedback.DriftCampaign, "DriftCampaignEntered", config=EXACT)
DriftCampaignsEntered = model_of(feedback.DriftCampaigns, "DriftCampaignsEntered", config=EXACT)
