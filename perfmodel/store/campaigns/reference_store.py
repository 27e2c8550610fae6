"""What the reference workload of a campaign took, each time and on each machine."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, insert, select

from perfmodel.client.records import CampaignReference
from perfmodel.store.campaigns.task_store import add_spent
from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore, record_from, row_of
from perfmodel.store.sql.tables import CAMPAIGN_REFERENCES


class ReferenceStore(SharedStore):
    """Keeps measurements of reference workloads."""

    def add(
        self,
        campaign: str,
        machine: str,
        *,
        step_time_s: float,
        drift_limit: float,
        elapsed_s: float,
    ) -> CampaignReference:
        """Keep one more, compared with the first one of its campaign on that machine.

        Parameters
        ----------
        drift_limit : float
            Share by which it may be slower or faster than the first, > 0.
        elapsed_s : float
            Time that measuring it took; counts towards the budget, seconds.
        """
        table = CAMPAIGN_REFERENCES
        first = select(table.c.step_time_s).where(_on(campaign, machine)).order_by(table.c.id)
        with self._connections.writing() as connection:
            first_s = connection.execute(first.limit(1)).scalar()
            drift = None if first_s is None else step_time_s / first_s - 1.0
            reference = CampaignReference(
                machine=machine,
                step_time_s=step_time_s,
                drift=drift,
                good=drift is None or abs(drift) <= drift_limit,
                measured_at=now(),
            )
            connection.execute(insert(table).values(campaign=campaign, **row_of(reference)))
            add_spent(connection, campaign, elapsed_s)
        return reference

    def of_campaign(self, campaign: str) -> Sequence[CampaignReference]:
        """Return those of a campaign, oldest first."""
        table = CAMPAIGN_REFERENCES
        query = select(table).where(table.c.campaign == campaign).order_by(table.c.id)
        return [record_from(CampaignReference, row) for row in self._rows(query)]

    def has_any(self, campaign: str, machine: str) -> bool:
        """Tell whether a machine has measured it before."""
        return self._has(select(CAMPAIGN_REFERENCES.c.id).where(_on(campaign, machine)))


def _on(campaign: str, machine: str) -> ColumnElement[bool]:
    table = CAMPAIGN_REFERENCES.c
    return and_(table.campaign == campaign, table.machine == machine)
