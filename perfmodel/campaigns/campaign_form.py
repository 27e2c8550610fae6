"""Campaigns and their tasks as plain JSON types: at the command line and over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfmodel.campaigns.progress import Progress
from perfmodel.store.campaigns.campaign_records import Campaign, Task

#: What is nobody's business outside, or stands elsewhere.
_NOT_SHOWN = ("name", "campaign", "turn", "owner", "checked")


def campaign_to_dict(campaign: Campaign, progress: Progress) -> dict[str, Any]:
    """Return a campaign with how far it is."""
    return {
        "id": campaign.name,
        "title": campaign.title,
        "policy": dict(campaign.policy),
        "created_at": campaign.created_at,
        **progress.to_dict(),
    }


def task_to_dict(task: Task) -> dict[str, Any]:
    """Return a task with what came of it."""
    plain = {name: value for name, value in asdict(task).items() if name not in _NOT_SHOWN}
    return {"id": task.name, **plain, "state": task.state.value}
