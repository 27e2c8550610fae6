"""The bodies of answers about campaigns, retrainings and drift."""

from __future__ import annotations

from perfmodel.client import feedback, records
from service.schemas.from_dataclass import model_of, page_of

CampaignEntry = model_of(records.Campaign, "CampaignEntry")
CampaignEntered = model_of(records.EnteredCampaign, "CampaignEntered")
CampaignReferenceEntry = model_of(records.CampaignReference, "CampaignReferenceEntry")
CampaignShown = model_of(records.CampaignShown, "CampaignShown")
CampaignsAnswer = page_of(CampaignEntry, "CampaignsAnswer", "campaigns")

CampaignTaskEntry = model_of(records.CampaignTask, "CampaignTaskEntry")
CampaignTasksAnswer = page_of(
    CampaignTaskEntry, "CampaignTasksAnswer", "tasks", what="tasks of a campaign"
)

RetrainingEntry = model_of(records.Retraining, "RetrainingEntry")
RetrainingEntered = model_of(records.EnteredRetraining, "RetrainingEntered")
RetrainingsAnswer = page_of(RetrainingEntry, "RetrainingsAnswer", "retrainings")
RetrainingLineEntry = model_of(records.RetrainingLine, "RetrainingLineEntry")
RetrainingLogAnswer = model_of(records.RetrainingLog, "RetrainingLogAnswer")

AlarmRemedyEntry = model_of(feedback.AlarmRemedy, "AlarmRemedyEntry")
AlarmDoubtEntry = model_of(feedback.AlarmDoubt, "AlarmDoubtEntry")
DriftAlarmEntry = model_of(feedback.DriftAlarm, "DriftAlarmEntry")
AlarmsAcknowledgedAnswer = model_of(feedback.AlarmsAcknowledged, "AlarmsAcknowledgedAnswer")
DriftGroupEntry = model_of(feedback.DriftGroup, "DriftGroupEntry")
DriftReporterEntry = model_of(feedback.DriftReporter, "DriftReporterEntry")
DriftPointEntry = model_of(feedback.DriftPoint, "DriftPointEntry")
DriftAnswer = model_of(feedback.Drift, "DriftAnswer")
DriftCampaignEntered = model_of(feedback.DriftCampaign, "DriftCampaignEntered")
DriftCampaignsEntered = model_of(feedback.DriftCampaigns, "DriftCampaignsEntered")
