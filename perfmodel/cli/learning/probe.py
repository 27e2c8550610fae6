"""``perfmodel probe``: from a device that nobody measured to a model that answers for it."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.failures import EXIT_FAILED
from perfmodel.cli.options import (
    FOLDER,
    FiniteRange,
    device_option,
    models_store_option,
    output_options,
    retry_options,
    store_options,
)
from perfmodel.cli.output import duration, percent, print_json, tell
from perfmodel.cli.progress_bar import ProgressBar
from perfmodel.errors import PerfModelError

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec
    from perfmodel.profilers.described import DescribedDevice
    from perfmodel.profilers.profiling import ProfileEvent
    from perfmodel.records import StepRecord
    from perfmodel.training.probes.probe_candidates import Probe


@click.command()
@device_option
@click.option(
    "--minutes", type=FiniteRange(min=0.2), default=10.0, show_default=True,
    help="Time for the measurements.",
)  # fmt: skip
@click.option(
    "-k", "count", type=click.IntRange(min=1), default=20, show_default=True,
    help="Workloads that are planned at most.",
)  # fmt: skip
@click.option(
    "--jobs",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="JSON file with a list of jobs to choose from, instead of a set of known models.",
)
@click.option(
    "--out", type=FOLDER, default=Path("profiles"), show_default=True,
    help="Folder of the records.",
)  # fmt: skip
@retry_options
@click.option("--service", metavar="URL", help="Service that is to answer for the device.")
@click.option("--key", envvar="PERFMODEL_KEY", help="Key of the service. [default: PERFMODEL_KEY]")
@models_store_option
@output_options
def command(
    device: str,
    minutes: float,
    count: int,
    jobs: Path | None,
    out: Path,
    retry_failed: bool,
    retry_noisy: bool,
    service: str | None,
    key: str | None,
    models: str,
    as_json: bool,
) -> None:
    """Calibrate a device of this machine: look, plan, measure, adapt, and tell a service.

    Stopped at any moment, the same command goes on where it was. Let nothing else use the device
    meanwhile.
    """
    from perfmodel.cli.learning.profile import say_device
    from perfmodel.profilers.described import described_device
    from perfmodel.profilers.runtime import open_runtime
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.probes.probe_run import planned_steps

    found = described_device(open_runtime(device))
    say_device(found, out)
    plan = _plan(found.accelerator, count, jobs, models)
    said: dict[str, Any] = {
        "accelerator": found.accelerator.name,
        "measured": _measure(plan, found, device, out, minutes, retry_failed, retry_noisy),
    }
    store = ProfileStore(out)
    store.compact()
    steps = planned_steps(store.steps(found.accelerator.name), [one.job for one in plan])
    if not steps:
        tell("Nothing was measured; the lines above say why.")
        click.get_current_context().exit(EXIT_FAILED)
    said |= _adapt(out, found.accelerator.name, models)
    said["service"] = None if service is None else _tell(service, key, found, steps)
    if as_json:
        print_json({**said, "folder": str(out)})


def _plan(spec: AcceleratorSpec, count: int, jobs: Path | None, models: str) -> tuple[Probe, ...]:
    from perfmodel.cli.learning.probe_plan import listed_jobs, model_for
    from perfmodel.registry.mirror import local_models
    from perfmodel.training.probes.probe_candidates import plan_probes

    model = model_for(local_models(models, store_options()), spec)
    plan = plan_probes(
        spec,
        count,
        chooser=model.joint if model else None,
        jobs=listed_jobs(jobs) if jobs else None,
        progress=tell,
    )
    tell(
        f"Plan: {len(plan.probes)} of {plan.candidates} workloads; the expected error is "
        f"{percent(plan.error_before)} now and {percent(plan.probes[-1].expected_error)} with all."
    )
    return plan.probes


def _measure(
    plan: tuple[Probe, ...],
    found: DescribedDevice,
    device: str,
    out: Path,
    minutes: float,
    retry_failed: bool,
    retry_noisy: bool,
) -> dict[str, Any]:
    from perfmodel.devices.cpu_facts import read_cpu_facts
    from perfmodel.profilers.run import MeasureSettings
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.probes.probe_run import measure_probes

    with ProgressBar() as bar:
        probed = measure_probes(
            plan,
            store=ProfileStore(out),
            device=found,
            settings=MeasureSettings(threads=read_cpu_facts().core_count, device=device),
            budget_s=60.0 * minutes,
            on_event=_Shown(bar, total=len(plan), budget_s=60.0 * minutes),
            retry_failed=retry_failed,
            retry_noisy=retry_noisy,
        )
    tell(
        f"Measured {probed.finished}, held before {probed.skipped}, failed {probed.failed}, no "
        f"time for {probed.left_over}, in {duration(probed.elapsed_s)}. Records are in {out}."
    )
    return asdict(probed)


class _Shown:
    """Shows workloads as parts of the plan, each of which is measured by itself.

    What is left is no more than the time that was given.
    """

    def __init__(self, bar: ProgressBar, *, total: int, budget_s: float) -> None:
        self._bar = bar
        self._total = total
        self._begun_s = time.monotonic()
        self._budget_s = budget_s
        self._position = 0

    def __call__(self, event: ProfileEvent) -> None:
        from perfmodel.cli.learning.profile import show_event
        from perfmodel.profilers.profiling import EventKind

        if event.kind in (EventKind.STARTED, EventKind.SKIPPED):
            self._position += 1
        done = self._position - (event.kind is EventKind.STARTED)
        gone_s = time.monotonic() - self._begun_s
        left_s = max(0.0, self._budget_s - gone_s)
        if done:
            left_s = min(left_s, gone_s / done * (self._total - done))
        show_event(
            self._bar,
            replace(event, position=self._position, total=self._total, remaining_s=left_s),
        )


def _adapt(out: Path, name: str, models: str) -> dict[str, Any]:
    """Adapt the version that serves, or say why not: the records are there either way."""
    from perfmodel.cli.learning.adapt import adapted, serving_version
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.adapt import usable_probes

    try:
        probes = usable_probes(ProfileStore(out), name)
        version = serving_version(models, "default")
        made, taken, _ = adapted(models, version, probes.samples)
    except PerfModelError as error:
        tell(f"The model was not adapted: {error}")
        return {"adapted": None, "serves": False}
    tell(f"The model took {len(taken)} records into account. {made.sentences}")
    return {"adapted": made.place, "serves": made.serves}


def _tell(
    service: str, key: str | None, found: DescribedDevice, steps: list[StepRecord]
) -> dict[str, Any]:
    from perfmodel.client import Client
    from perfmodel.training.probes.probe_run import tell_service

    with Client(service, api_key=key) as client:
        taken = tell_service(client, found, steps)
    tell(
        f"{service} answers for {found.accelerator.name}: {taken.accepted} accepted, "
        f"{taken.known} known, {taken.quarantined} quarantined, {taken.refused} refused."
    )
    for one in taken.observations:
        if one.problem is not None:
            tell(f"Refused: {one.problem}")
    return {
        "url": service, "accepted": taken.accepted, "known": taken.known,
        "quarantined": taken.quarantined, "refused": taken.refused,
    }  # fmt: skip
