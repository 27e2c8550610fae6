"""A worker: takes tasks on, measures each in a process of its own, and brings the results."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.drift import DriftWatch
from perfmodel.campaigns.events import WorkEvent, WorkEventKind, WorkReport
from perfmodel.campaigns.lease_keeper import LeaseKeeper
from perfmodel.campaigns.policy import CampaignPolicy, Order, parse_policy
from perfmodel.campaigns.record_folder import RecordFolder, outcome_of
from perfmodel.errors import MeasurementError, StoreError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.profilers.device_lock import machine_lock
from perfmodel.profilers.overlap import Begin, InFlight, jobs_beside, measured
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Failure, Measuring, Success
from perfmodel.records import StepRecord
from perfmodel.store.campaigns import CampaignStore, ReferenceStore, TaskStore
from perfmodel.store.campaigns.campaign_records import Task
from perfmodel.store.campaigns.task_store import Wanted
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.sql.connections import Connections

T = TypeVar("T")

#: Lets another worker of the device have its turn: who has just unlocked would lock again first.
_YIELD_S = 0.02
#: Tasks that overlap before another worker of the device has its turn.
_OVERLAPPED = 16


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """How a worker works.

    Parameters
    ----------
    campaign : str or None
        On this campaign only.
    most_tasks : int or None
        Ends after so many; None: when nothing is left for its device.
    lease_s : float
        Time after which a worker that is not heard of has lost its task, seconds.
    patience_s : float
        How long a database that is out of reach is asked again before the worker ends, seconds.
    poll_s : float
        How often it is looked for tasks that come back, seconds.
    settings : MeasureSettings or None
        What the policy of a campaign says goes before; None: all cores of the device.
    beside : int or None
        Tasks that are prepared or finished while one runs; None: as many as the host bears.
    """

    campaign: str | None = None
    most_tasks: int | None = None
    lease_s: float = 30.0
    patience_s: float = 120.0
    poll_s: float = 2.0
    settings: MeasureSettings | None = None
    beside: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A task that is being measured."""

    claim: Task
    job: Job
    threads: int
    begin_s: float


@dataclass
class _Tally:
    counts: Counter[WorkEventKind] = field(default_factory=Counter)
    policies: dict[str, CampaignPolicy] = field(default_factory=dict)
    said_idle: bool = False
    said_busy: bool = False
    last_end_s: float = 0.0


class CampaignWorker:
    """Measures tasks of campaigns on one device, each alone on it.

    For each: take it on in the database; measure it in fresh processes; write the record durably;
    end it in the database. Where the device works by itself, the next task is prepared and the last
    one finished while one runs. Killed at any moment, at most what had begun is begun again. Where
    its record was written already the next worker of the folder finds it and measures nothing; what
    has ended is never begun again.

    Parameters
    ----------
    on_campaign : callable
        Called with the name of a campaign before its first task and after one that has failed, and
        may put the tasks that wait in another order.

    Raises
    ------
    MeasurementError
        In :meth:`run`: the device has disappeared. Its task waits for another worker.
    StoreError
        The database or the folder of records cannot be used; the task waits, where it could be put
        back, or comes back when its lease has run out.
    """

    def __init__(
        self,
        connections: Connections,
        profiles: ProfileStore,
        device: CampaignDevice,
        options: WorkOptions,
        *,
        begin: Begin = Measuring,
        on_event: Callable[[WorkEvent], None] = lambda event: None,
        on_campaign: Callable[[str], None] = lambda campaign: None,
    ) -> None:
        self._tasks = TaskStore(connections)
        self._campaigns = CampaignStore(connections)
        self._device = device
        self._options = options
        self._records = RecordFolder(profiles, device.spec)
        self._begin_job = begin
        self._beside = jobs_beside(device.device) if options.beside is None else options.beside
        self._on_event = on_event
        self._on_campaign = on_campaign
        self._drift = DriftWatch(
            self._tasks,
            ReferenceStore(connections),
            self._records,
            machine=device.machine,
            tell=self._tell,
        )
        self._tally = _Tally()
        #: Names this worker among all that share the database.
        self.owner = f"{device.host[:32]}-{os.getpid()}-{secrets.token_hex(4)}"

    def run(self) -> WorkReport:
        """Work until nothing is left for the device, or as many tasks as asked for."""
        begin_s = time.monotonic()
        wanted = Wanted(accelerators=self._device.words, campaign=self._options.campaign)
        while not self._has_done_enough():
            if self._take_turn(wanted):
                time.sleep(_YIELD_S)
            elif not self._patiently(lambda: self._tasks.has_open(wanted)):
                break
            else:
                self._say_idle()
                time.sleep(self._options.poll_s)
        self._leave()
        counts = self._tally.counts
        return WorkReport(
            finished=counts[WorkEventKind.FINISHED],
            held=counts[WorkEventKind.HELD],
            failed=counts[WorkEventKind.FAILED],
            superseded=counts[WorkEventKind.SUPERSEDED],
            elapsed_s=time.monotonic() - begin_s,
        )

    def _has_done_enough(self, begun: int = 0) -> bool:
        most, kinds = self._options.most_tasks, self._tally.counts
        ended = (WorkEventKind.FINISHED, WorkEventKind.HELD, WorkEventKind.FAILED)
        return most is not None and begun + sum(kinds[kind] for kind in ended) >= most

    def _take_turn(self, wanted: Wanted) -> bool:
        """Do some tasks while no other worker uses the device; False without any."""
        with machine_lock(self._device.turn_lock, on_wait=self._say_busy):
            aside = self._patiently(self._tasks.set_aside_lost)
            if aside:
                text = f"{aside} set aside: they took their workers with them twice"
                self._tell(WorkEvent(kind=WorkEventKind.SET_ASIDE, text=text))
            with LeaseKeeper(self._tasks, self.owner, lease_s=self._options.lease_s) as held:
                try:
                    with InFlight[_Begun](1 + self._beside) as begun:
                        return self._do_some(wanted, held, begun)
                except BaseException:
                    # Interrupted, or something that is not the task's own fault.
                    for claim in held.claims:
                        with suppress(StoreError):
                            if self._tasks.put_back(claim):
                                self._tell_of(claim, WorkEventKind.PUT_BACK)
                    raise

    def _do_some(self, wanted: Wanted, held: LeaseKeeper, begun: InFlight[_Begun]) -> bool:
        lease_s, taken = self._options.lease_s, 0
        while taken < (_OVERLAPPED if self._beside else 1):
            if self._has_done_enough(len(begun)):
                break
            claim = self._patiently(lambda: self._tasks.claim(self.owner, wanted, lease_s=lease_s))
            if claim is None:
                break
            taken += 1
            self._tally.said_idle = False
            held.hold(claim)
            self._do(claim, held, begun)
        self._end_all(held, begun)
        return taken > 0

    def _do(self, claim: Task, held: LeaseKeeper, begun: InFlight[_Begun]) -> None:
        """Take a task as far as it can be without waiting for the one before."""
        if claim.campaign not in self._tally.policies and self._was_put_in_order(claim):
            held.let_go(claim)
            return
        policy, job = self._policy(claim.campaign), stated_job(claim.job)
        settings = self._settings(policy)
        of_campaign = sum(one.claim.campaign == claim.campaign for one in begun)
        if self._drift.is_due(claim.campaign, policy, begun=of_campaign):
            self._end_all(held, begun)
            self._drift.check(claim.campaign, policy, self._measuring(policy))
        # What took a worker with it shall take no other task with it.
        is_alone = claim.attempts > 1
        if is_alone or any(one.job == job for one in begun):
            self._end_all(held, begun)
        step = self._records.find(job, threads=settings.threads, look_again=is_alone)
        if step is not None:
            self._finish(claim, step, kind=WorkEventKind.HELD, elapsed_s=0.0)
            held.let_go(claim)
            return
        self._tell_of(claim, WorkEventKind.STARTED)
        one = _Begun(claim=claim, job=job, threads=settings.threads, begin_s=time.monotonic())
        begun.add(one, self._begin_job(job, self._device.spec, settings))
        if begun.is_full or is_alone:
            self._end(held, begun)

    def _end_all(self, held: LeaseKeeper, begun: InFlight[_Begun]) -> None:
        while begun:
            self._end(held, begun)

    def _end(self, held: LeaseKeeper, begun: InFlight[_Begun]) -> None:
        """Wait for the task that was begun first, and keep what came of it."""
        one, outcome = begun.take()
        # Of tasks that overlap each counts for what it added.
        now_s = time.monotonic()
        elapsed_s = now_s - max(one.begin_s, self._tally.last_end_s)
        self._tally.last_end_s = now_s
        self._keep(one, outcome, elapsed_s=elapsed_s)
        held.let_go(one.claim)

    def _was_put_in_order(self, claim: Task) -> bool:
        """Let another task of a new campaign come first, where its order says so."""
        policy = self._policy(claim.campaign)
        if policy.order is not Order.ADAPTIVE:
            return False
        self._patiently(lambda: self._tasks.put_back(claim))
        self._on_campaign(claim.campaign)
        return True

    def _keep(self, one: _Begun, outcome: Success | Failure, *, elapsed_s: float) -> None:
        claim, job = one.claim, one.job
        if isinstance(outcome, Failure) and not self._device.is_present():
            raise MeasurementError(
                f"{self._device.machine} has disappeared while {job.label} was measured "
                f"({outcome.reason}). The task was put back, and what was finished stays. See what "
                "the driver says (`perfmodel doctor`), and start the worker again."
            )
        if not self._tasks.renew(self.owner, [claim.name], lease_s=self._options.lease_s):
            self._tell_of(claim, WorkEventKind.SUPERSEDED)
            return
        self._records.add(job, outcome, threads=one.threads)
        if isinstance(outcome, Success):
            step = outcome.measurement.step
            self._finish(claim, step, kind=WorkEventKind.FINISHED, elapsed_s=elapsed_s)
        else:
            self._fail(claim, outcome, elapsed_s=elapsed_s)

    def _finish(
        self, claim: Task, step: StepRecord, *, kind: WorkEventKind, elapsed_s: float
    ) -> None:
        outcome = outcome_of(step, folder=self._records.path)
        ended = self._patiently(
            lambda: self._tasks.finish(
                claim, outcome, machine=self._device.machine, elapsed_s=elapsed_s
            )
        )
        self._tell_of(
            claim,
            kind if ended else WorkEventKind.SUPERSEDED,
            step_time_s=step.step_time_s,
            noisy=step.noisy,
        )

    def _fail(self, claim: Task, failure: Failure, *, elapsed_s: float) -> None:
        reason = f"{failure.kind}: {failure.reason}"
        ended = self._patiently(
            lambda: self._tasks.fail(
                claim, reason, machine=self._device.machine, elapsed_s=elapsed_s
            )
        )
        kind = WorkEventKind.FAILED if ended else WorkEventKind.SUPERSEDED
        self._tell_of(claim, kind, text=reason)
        if self._policy(claim.campaign).order is Order.ADAPTIVE:
            # What it would have told is still to be found out.
            self._on_campaign(claim.campaign)

    def _leave(self) -> None:
        """Settle what was measured here, also by those before who could not."""
        asked = self._options.campaign
        with machine_lock(self._device.turn_lock, on_wait=self._say_busy):
            for campaign in self._patiently(lambda: self._tasks.measured_on(self._device.machine)):
                if asked in (None, campaign):
                    policy = self._policy(campaign)
                    self._drift.leave(campaign, policy, self._measuring(policy))

    def _policy(self, campaign: str) -> CampaignPolicy:
        policies = self._tally.policies
        if campaign not in policies:
            found = self._patiently(lambda: self._campaigns.find(campaign))
            stated: Mapping[str, Any] = {} if found is None else found.policy
            policies[campaign] = parse_policy(stated)
            self._drift.settle(campaign)
        return policies[campaign]

    def _settings(self, policy: CampaignPolicy) -> MeasureSettings:
        cores = self._device.spec.core_count
        given = self._options.settings or MeasureSettings(threads=cores or os.cpu_count() or 1)
        return replace(
            given,
            threads=policy.threads or given.threads,
            timeout_s=policy.timeout_s,
            memory_limit_bytes=policy.memory_limit_bytes,
            device=self._device.device,
        )

    def _measuring(self, policy: CampaignPolicy) -> Callable[[Job], Success | Failure]:
        settings = self._settings(policy)
        return lambda job: measured(self._begin_job, job, self._device.spec, settings)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call again while the database is out of reach, for as long as there is patience."""
        deadline_s = time.monotonic() + self._options.patience_s
        while True:
            try:
                return call()
            except StoreError:
                if time.monotonic() >= deadline_s:
                    raise
                time.sleep(min(1.0, self._options.poll_s))

    def _say_busy(self) -> None:
        if self._tally.said_busy:
            return
        self._tally.said_busy = True
        text = f"{self._device.device} is held by another worker; this one takes turns with it"
        self._tell(WorkEvent(kind=WorkEventKind.DEVICE_BUSY, text=text))

    def _say_idle(self) -> None:
        if not self._tally.said_idle:
            self._tally.said_idle = True
            text = "nothing waits; what other workers have begun may come back"
            self._tell(WorkEvent(kind=WorkEventKind.OTHERS_WORK, text=text))

    def _tell_of(self, claim: Task, kind: WorkEventKind, **more: Any) -> None:
        job = stated_job(claim.job)
        self._tell(WorkEvent(kind=kind, campaign=claim.campaign, task=claim.name, job=job, **more))

    def _tell(self, event: WorkEvent) -> None:
        self._tally.counts[event.kind] += 1
        self._on_event(event)
