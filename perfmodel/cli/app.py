"""The ``perfmodel`` command: finds its subcommands by name and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn

import click

from perfmodel import __version__
from perfmodel.cli.failures import EXIT_INTERRUPTED, exit_code_of, report
from perfmodel.cli.running.settings_file import read_settings_into, unread_variables

#: Each subcommand with its line in ``--help``.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "predict": "Predict the throughput of a job on a placement.",
        "explain": "Say why a prediction is what it is, operator by operator.",
        "compare": "Rank accelerators for a job.",
        "curve": "Predict the throughput over the number of accelerators.",
        "plans": "Search the parallel plans of a transformer.",
        "kernel": "Predict the time of a single kernel or collective by its shape.",
        "trace": "Say what a profiler's trace says.",
        "capture": "Turn a model into a graph without running it.",
        "devices": "List the accelerators that perfmodel knows.",
        "doctor": "Say what this machine has and what is missing.",
        "profile": "Measure workloads on this machine; resumes where it was stopped.",
        "measure": "Measure collectives, replicas, neighbours and loaders on this machine.",
        "campaign": "Measure workloads with any number of workers, each of them once.",
        "import": "Read public measurements as records.",
        "train": "Learn predictors from profiles.",
        "train-kernels": "Learn the times of single kernels from public tables.",
        "retrain": "Learn a model anew from all that was measured, judge it, let it serve.",
        "fit-placement": "Fit links, plans, memory and sharing again.",
        "adapt": "Take a few profiles of a device into account, without training.",
        "evaluate": "Measure how well predictors answer for families they never saw.",
        "probe": "Calibrate a device of this machine: plan, measure, adapt, tell a service.",
        "probe-plan": "Name the few measurements on a device that would be worth most.",
        "drift": "Say whether answers still fit what is observed, and what to do.",
        "graphs": "List, build and check the captured graphs that come with the package.",
        "models": "List the versions of trained models, and say which one serves.",
        "serve": "Answer over HTTP.",
        "keys": "Make, list and revoke the keys of the service.",
        "prices": "Set what accelerators cost, a whole list at once.",
        "backup": "Write one file of all that a service keeps.",
        "restore": "Put back what backup wrote.",
    }
)

#: The rooms of those whose files do not lie here.
_ROOMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "campaigns": ("campaign",),
        "asking": ("predict", "explain", "compare", "curve", "plans", "trace", "capture"),
        "learning": (
            "profile", "measure", "import", "train", "fit-placement", "adapt", "evaluate", "probe",
            "probe-plan",
        ),
        "kernels": ("kernel", "train-kernels"),
        "models": ("drift", "graphs", "models", "retrain"),
        "running": ("serve", "keys", "prices", "backup", "restore"),
    }
)  # fmt: skip


def _module(name: str) -> str:
    """Return the file that holds the ``command`` of a subcommand; no file can be called import."""
    room = next((f"{room}." for room, names in _ROOMS.items() if name in names), "")
    return f"perfmodel.cli.{room}{'import_data' if name == 'import' else name.replace('-', '_')}"


class LazyGroup(click.Group):
    """A command group whose files are imported when they are called: ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which ``--help`` shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(_module(cmd_name)).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; a misspelt one is answered with the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from perfmodel.errors import nearest_names

            close = nearest_names(args[0], list(COMMANDS), limit=1)
            if close:
                raise click.UsageError(
                    f"No such command {args[0]!r}. Did you mean {close[0]!r}?", ctx
                ) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run and exit with the code that ``docs/cli.md`` promises."""
        argv = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            read_settings_into(os.environ)
            for said in unread_variables(os.environ):
                click.echo(said, err=True)
            code = super().main(args=argv, prog_name=prog_name or "perfmodel", **extra)
        except (KeyboardInterrupt, click.Abort):
            click.echo("Interrupted.", err=True)
            sys.exit(EXIT_INTERRUPTED)
        except Exception as error:
            if "--debug" in argv:
                raise
            report(error, as_json="--json" in argv)
            sys.exit(exit_code_of(error))
        sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 some requests failed; 2 bad usage or input; 3 an extra is "
    "missing; 4 it could not be done; 5 an error of perfmodel itself; 130 interrupted.",
)
@click.version_option(__version__, prog_name="perfmodel")
def cli() -> None:
    """Answer what throughput a deep-learning job will reach on a placement."""


def main() -> NoReturn:
    """Run the ``perfmodel`` command; the console script."""
    cli.main()
