"""Campaigns in the database, as commands find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.cli.database import database_option, opened, url_of
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.store.campaigns.campaign_records import Campaign

__all__ = ["database_option", "found", "opened", "url_of"]


def found(campaigns: CampaignStore, name: str) -> Campaign:
    """Return a campaign by its name.

    Raises
    ------
    InvalidInputError
        There is none of that name.
    """
    campaign = campaigns.find(name)
    if campaign is None:
        raise InvalidInputError(
            f"There is no campaign {name!r} in the database; `perfmodel campaign status` lists "
            "those that are."
        )
    return campaign
