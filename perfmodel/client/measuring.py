"""Campaigns as calls: workloads that workers measure, wherever they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmodel.client.forms import Job
from perfmodel.client.protocol.messages import Call, Page, Task, listing, quoted
from perfmodel.client.protocol.waiting import until_ended
from perfmodel.client.records import Campaign, CampaignShown, CampaignTask, EnteredCampaign

_FIRST_WAIT_S = 0.25


def create_campaign(
    jobs: Sequence[Job | Mapping[str, Any]],
    *,
    accelerators: Sequence[str] = ("any",),
    policy: Mapping[str, Any] | None = None,
    title: str = "",
) -> Call[EnteredCampaign]:
    """Enter workloads to be measured, each once on every accelerator or kind of them.

    The same campaign always has the same ``id``; another ``title`` makes another one.
    """
    body = {
        "jobs": list(jobs),
        "accelerators": list(accelerators),
        "policy": dict(policy or {}),
        "title": title,
    }
    return Call(method="POST", path="/v1/campaigns", kind=EnteredCampaign, body=body)


def campaign(id: str) -> Call[CampaignShown]:
    """Return how far a campaign is, and how its machines drifted."""
    return Call(method="GET", path=f"/v1/campaigns/{quoted(id)}", kind=CampaignShown)


def campaigns(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Campaign]]:
    """List campaigns, newest first, ``limit`` at a time."""
    return listing("/v1/campaigns", Campaign, "campaigns", {"limit": limit, "cursor": cursor})


def campaign_results(
    id: str, *, state: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[Page[CampaignTask]]:
    """List the tasks of a campaign with what came of them, ``limit`` at a time."""
    query = {"state": state, "limit": limit, "cursor": cursor}
    return listing(f"/v1/campaigns/{quoted(id)}/results", CampaignTask, "tasks", query)


def cancel_campaign(id: str) -> Call[Campaign]:
    """End a campaign: what waits is not begun, what runs is dropped, what is done stays."""
    return Call(method="DELETE", path=f"/v1/campaigns/{quoted(id)}", kind=Campaign)


def wait_for_campaign(id: str, *, timeout_s: float = 86_400.0) -> Task[CampaignShown]:
    """Wait until nothing more comes of a campaign.

    Raises
    ------
    TimedOutError
        It has not ended by then; it can be waited for again.
    """
    return until_ended(
        campaign(id),
        lambda one: f"Campaign {id} is {one.stage}",
        timeout_s=timeout_s,
        first_s=_FIRST_WAIT_S,
    )
