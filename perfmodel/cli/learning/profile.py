"""``perfmodel profile``: measure workloads on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.failures import EXIT_FAILED, EXIT_SOME_FAILED
from perfmodel.cli.options import (
    FOLDER,
    FiniteRange,
    device_option,
    dims_option,
    job_options,
    output_options,
    retry_options,
)
from perfmodel.cli.output import duration, percent, print_json, tell
from perfmodel.cli.progress_bar import ProgressBar, end_in
from perfmodel.cli.subjects import jobs_and_files

if TYPE_CHECKING:
    from perfmodel.campaigns.events import WorkReport
    from perfmodel.profilers.described import DescribedDevice
    from perfmodel.profilers.onnx_file import OnnxFile
    from perfmodel.profilers.profiling import ProfileEvent, ProfileReport

#: Words of ``--provider``; help is shown without importing what runs them.
_PROVIDERS = ("cpu", "openvino", "cuda", "tensorrt", "migraphx", "directml")


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="FILE|MODEL...")
@click.option(
    "--out", type=FOLDER, default=Path("profiles"), show_default=True,
    help="Folder of the records.",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(1), help="CPU threads. [default: all cores]")
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=1), default=120.0, show_default=True,
    help="Seconds that one workload may take.",
)  # fmt: skip
@device_option
@click.option(
    "--provider", default="", metavar=f"[{'|'.join(_PROVIDERS)}]",
    help="Execution provider of ONNX Runtime. [default: the usual one of the device]",
)  # fmt: skip
@click.option(
    "--device-graphs", is_flag=True,
    help="Launch each step as one graph of the device (CUDA graphs).",
)  # fmt: skip
@retry_options
@dims_option
@job_options
@output_options
def command(
    subjects: tuple[str, ...],
    out: Path,
    threads: int | None,
    timeout_s: float,
    device: str,
    provider: str,
    device_graphs: bool,
    retry_failed: bool,
    retry_noisy: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Measure the time and memory of real steps, one workload after the other.

    FILE is a list of jobs: .jsonl with one job a line, or .toml with grids. MODEL is as for
    `perfmodel capture`, measured with the options below; an .onnx file is measured itself, in
    ONNX Runtime unless --compiler says openvino or tensorrt. A workload that OUT already holds is
    skipped, so the same command continues after an interruption.
    """
    from perfmodel.devices.cpu_facts import read_cpu_facts
    from perfmodel.profilers.described import described_device
    from perfmodel.profilers.profiling import profile_jobs
    from perfmodel.profilers.run import MeasureSettings
    from perfmodel.profilers.runtime import open_runtime
    from perfmodel.profilers.steps.providers import known_provider
    from perfmodel.store.profiles import ProfileStore

    jobs, files = jobs_and_files(subjects, settings)
    provider = known_provider(provider)
    described = described_device(open_runtime(device))
    say_device(described, out)
    store = ProfileStore(out)
    with ProgressBar() as bar:
        found = profile_jobs(
            jobs,
            store=store,
            device=described.accelerator,
            settings=MeasureSettings(
                threads=threads or read_cpu_facts().core_count,
                timeout_s=timeout_s,
                device=device,
                provider=provider,
                device_graphs=device_graphs,
                files=files,
            ),
            on_event=partial(show_event, bar, files=files),
            retry_failed=retry_failed,
            retry_noisy=retry_noisy,
        )
    store.compact()
    finish(found, found.skipped, out, as_json=as_json)


def say_device(found: DescribedDevice, out: Path) -> None:
    """Say which device it is, and where the entry of one without an entry was written."""
    from perfmodel.profilers.described import save_entry

    spec = found.accelerator
    tell(f"Device: {spec.name} ({spec.vendor} {spec.architecture})")
    for note in found.notes:
        tell(note)
    if entry := save_entry(out, found):
        tell(
            f"The catalogue does not have it. {entry} describes it by what was measured: "
            f"PUT /v1/accelerators/{spec.name} adds it to a service."
        )


def show_event(
    bar: ProgressBar, event: ProfileEvent, files: Mapping[str, OnnxFile] | None = None
) -> None:
    """Show one event: the bar moves, and what has ended is a line.

    Parameters
    ----------
    files : mapping of str to OnnxFile, optional
        By which jobs that refer to a graph are called.
    """
    from perfmodel.profilers.profiling import EventKind
    from perfmodel.profilers.worker import Failure, Success

    job = event.job
    place = f"[{event.position:>{len(str(event.total))}}/{event.total}]"
    file = (files or {}).get(job.graph or "")
    label = file.model if file else job.label
    what = f"{label} {job.mode} batch {job.batch_size} {job.precision} {job.compiler}"
    end = "" if event.remaining_s is None else end_in(event.remaining_s)
    bar.advance(what, event.position - (event.kind is EventKind.STARTED), event.total, end)
    if event.kind is EventKind.STARTED:
        return
    match event.outcome:
        case Success(measurement=measurement):
            step = measurement.step
            noisy = "  noisy" if step.noisy else ""
            said = f"{duration(step.step_time_s)}, spread {percent(step.spread)}{noisy}"
        case Failure(kind=kind, reason=reason):
            said = f"{kind}: {reason}"
        case _ if event.failed_before:
            said = f"failed before ({event.failed_before}); --retry-failed measures it again"
        case _:
            said = "measured before"
    bar.line(f"{place} {what}: {said}{end and f'  ({end})'}")


def finish(
    found: ProfileReport | WorkReport, held_before: int, out: Path, *, as_json: bool
) -> None:
    """Print what was measured into a folder, and exit with what that means where some failed."""
    if as_json:
        print_json({**asdict(found), "folder": str(out)})
    else:
        click.echo(
            f"{found.finished} measured, {held_before} held before, {found.failed} failed in "
            f"{duration(found.elapsed_s)}. Records are in {out}."
        )
    if found.failed:
        some = found.finished or held_before
        click.get_current_context().exit(EXIT_SOME_FAILED if some else EXIT_FAILED)
