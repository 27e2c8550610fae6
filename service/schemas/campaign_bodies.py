"""The bodies of answers about campaigns."""

from __future__ import annotations

from perfmodel.client import records
from service.schemas.from_dataclass import EXACT, model_of, page_of

CampaignEntry = model_of(records.Campaign, "CampaignEntry", config=EXACT)
CampaignEntered = model_of(records.EnteredCampaign, "CampaignEntered", config=EXACT)
CampaignReferenceEntry = model_of(records.CampaignReference, "CampaignReferenceEntry", config=EXACT)
CampaignShown = model_of(records.CampaignShown, "CampaignShown", config=EXACT)
CampaignsAnswer = page_of(CampaignEntry, "CampaignsAnswer", "campaigns")

CampaignTaskEntry = model_of(records.CampaignTask, "CampaignTaskEntry", config=EXACT)
CampaignTasksAnswer = page_of(
    CampaignTaskEntry, "CampaignTasksAnswer", "tasks", what="tasks of a campaign"
)
