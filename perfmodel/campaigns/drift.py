"""The reference workload among the others: whether the machine is still the one it was."""

from __future__ import annotations

import time
from collections.abc import Callable

from perfmodel.campaigns.events import WorkEvent, WorkEventKind
from perfmodel.campaigns.policy import CampaignPolicy
from perfmodel.campaigns.record_folder import RecordFolder
from perfmodel.client.records import CampaignReference
from perfmodel.graph.job import Job
from perfmodel.profilers.worker import Failure, Success
from perfmodel.store.campaigns import ReferenceStore, TaskStore


class DriftWatch:
    """Measures the reference of campaigns on one machine, and doubts what was measured before.

    The first reference on a machine is what later ones are compared with. Records since the last
    reference stay in the journal; the next one decides whether they are noisy, and then they are
    kept for good.

    Parameters
    ----------
    machine : str
        As tasks name it.
    """

    def __init__(
        self,
        tasks: TaskStore,
        references: ReferenceStore,
        records: RecordFolder,
        *,
        machine: str,
        tell: Callable[[WorkEvent], None],
    ) -> None:
        self._tasks = tasks
        self._references = references
        self._records = records
        self._machine = machine
        self._tell = tell

    def is_due(self, campaign: str, policy: CampaignPolicy, *, begun: int) -> bool:
        """Tell whether the reference has to be measured before the next task.

        Parameters
        ----------
        begun : int
            Tasks of the campaign that are being measured.
        """
        if policy.reference is None:
            return False
        if not self._references.has_any(campaign, self._machine):
            return True
        return len(self._tasks.unchecked(campaign, self._machine)) + begun >= policy.reference_every

    def check(
        self, campaign: str, policy: CampaignPolicy, measure: Callable[[Job], Success | Failure]
    ) -> None:
        """Measure the reference, and judge by it what was measured since the one before."""
        assert policy.reference is not None, "asked for without a reference"
        begin_s = time.monotonic()
        outcome = measure(policy.reference)
        if isinstance(outcome, Failure):
            self._say(campaign, policy.reference, f"could not be measured: {outcome.reason}")
            return
        found = self._references.add(
            campaign,
            self._machine,
            step_time_s=outcome.measurement.step.step_time_s,
            drift_limit=policy.drift_limit,
            elapsed_s=time.monotonic() - begin_s,
        )
        doubt = None if found.good else doubt_of(found, policy)
        self._say(campaign, policy.reference, doubt or _said(found), found.step_time_s)
        self._tasks.check(campaign, self._machine, doubt=doubt)
        self.settle(campaign)

    def leave(
        self, campaign: str, policy: CampaignPolicy, measure: Callable[[Job], Success | Failure]
    ) -> None:
        """Settle what was measured since the last reference before the worker goes."""
        left = self._tasks.unchecked(campaign, self._machine)
        if policy.reference is not None and left:
            self.check(campaign, policy, measure)
        else:
            self._records.settle({outcome["key"]: None for outcome in left})

    def settle(self, campaign: str) -> None:
        """Keep for good what a reference has judged; a worker that was killed may not have."""
        self._records.settle(self._tasks.judged(campaign, self._machine))

    def _say(self, campaign: str, job: Job, text: str, step_time_s: float | None = None) -> None:
        self._tell(
            WorkEvent(
                kind=WorkEventKind.REFERENCE,
                campaign=campaign,
                job=job,
                text=text,
                step_time_s=step_time_s,
            )
        )


def doubt_of(reference: CampaignReference, policy: CampaignPolicy) -> str:
    """Return why records are noisy that were measured before a reference."""
    return (
        f"The reference took {reference.drift or 0.0:+.1%} against the first time on this machine, "
        f"past the limit of {policy.drift_limit:.0%}."
    )


def _said(reference: CampaignReference) -> str:
    return "first on this machine" if reference.drift is None else f"{reference.drift:+.1%}"
