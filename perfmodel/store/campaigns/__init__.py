"""Campaigns in the database: what shall be measured, who does, and what came of it."""

from perfmodel.store.campaigns.campaign_store import CampaignStore
from perfmodel.store.campaigns.reference_store import ReferenceStore
from perfmodel.store.campaigns.task_store import TaskStore

__all__ = ["CampaignStore", "ReferenceStore", "TaskStore"]
