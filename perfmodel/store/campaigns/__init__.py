"""Campaigns in the database: what shall be measured, who does, and what came of it."""

from perfmodel.errors import MissingExtraError

try:
    from perfmodel.store.campaigns.campaign_store import CampaignStore
    from perfmodel.store.campaigns.reference_store import ReferenceStore
    from perfmodel.store.campaigns.task_store import TaskStore
except ModuleNotFoundError as error:
    if error.name not in ("alembic", "sqlalchemy"):
        raise
    raise MissingExtraError("The database", extra="serve") from error

__all__ = ["CampaignStore", "ReferenceStore", "TaskStore"]
