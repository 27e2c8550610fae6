"""How the command line tells that something failed: exit codes and one clear line."""

from __future__ import annotations

import re
import signal
from dataclasses import asdict
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from perfmodel.cli.output import print_json
from perfmodel.errors import InvalidInputError, MissingExtraError, PerfModelError

#: Some of several requests failed, the others were answered.
EXIT_SOME_FAILED = 1
#: Bad usage or bad input; nothing was done.
EXIT_INPUT = 2
#: An optional library is absent.
EXIT_MISSING_EXTRA = 3
#: It could not be done: a damaged artefact, a failed measurement, unreadable records.
EXIT_FAILED = 4
#: An error of perfmodel itself.
EXIT_INTERNAL = 5
#: Ctrl-C.
EXIT_INTERRUPTED = 130


def end_as_with_ctrl_c() -> None:
    """Let SIGTERM, which schedulers send before they kill, end a command as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signal_number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def exit_code_of(error: Exception) -> int:
    """Return the exit code of an error, 2 to 5 as listed in ``docs/cli.md``.

    Examples
    --------
    >>> exit_code_of(InvalidInputError("batch_size must be >= 1; got 0."))
    2
    """
    match error:
        case click.ClickException() | InvalidInputError():
            return EXIT_INPUT
        case PerfModelError() if _is_refused(error):
            return EXIT_INPUT
        case MissingExtraError():
            return EXIT_MISSING_EXTRA
        case PerfModelError() | OSError():
            return EXIT_FAILED
    return EXIT_INTERNAL


def problem(error: Exception) -> dict[str, Any]:
    """Return an error as an object in the manner of RFC 9457.

    It has ``type``, ``title``, ``detail`` and ``exit_code``; of bad input also ``errors`` with
    pointers, and ``did_you_mean`` where a name is close.

    Examples
    --------
    >>> problem(InvalidInputError("Too small.", pointer="/job/batch_size"))["errors"]
    [{'pointer': '/job/batch_size', 'detail': 'Too small.'}]
    """
    detail = message_of(error)
    kind = _kind(error)
    found: dict[str, Any] = {
        "type": f"urn:perfmodel:problem:{kind}",
        "title": kind.replace("-", " ").capitalize(),
        "detail": detail,
        "exit_code": exit_code_of(error),
    }
    if (told := getattr(error, "problem", None)) is not None:  # a service said why
        found |= {"type": told.type, "title": told.title}
        found["errors"] = [asdict(item) for item in told.errors]
    if isinstance(error, InvalidInputError):
        found["errors"] = [_entry(one) for one in (error, *error.others)]
    if close := getattr(error, "did_you_mean", None):
        found["did_you_mean"] = list(close)
    return found


def _entry(error: InvalidInputError) -> dict[str, Any]:
    entry: dict[str, Any] = {"pointer": error.pointer, "detail": error.message}
    if error.allowed:
        entry["allowed"] = list(error.allowed)
    return entry


def message_of(error: Exception) -> str:
    """Return what an error says, in one line without a traceback."""
    match error:
        case click.BadParameter() if variable := _variable_of(error):
            return f"{error.format_message()} That is what {variable} says."
        case click.exceptions.NoArgsIsHelpError(ctx=ctx) if isinstance(ctx.command, click.Group):
            known = ", ".join(ctx.command.list_commands(ctx))
            return f"{ctx.command_path} needs one of its commands: {known}."
        case click.ClickException():
            return error.format_message()
        case PerfModelError():
            return error.message
        case OSError():
            place = f": {error.filename}" if error.filename else ""
            return f"{error.strerror or error}{place}"
    return (
        f"perfmodel failed on its own: {type(error).__name__}: {error}. Run it again with --debug "
        "to see where."
    )


def _variable_of(error: click.BadParameter) -> str:
    """Return the variable of the environment that an option was read from; empty for none."""
    ctx, param = error.ctx, error.param
    if ctx is None or param is None or param.name is None:
        return ""
    by_variable = ctx.get_parameter_source(param.name) is ParameterSource.ENVIRONMENT
    return str(param.envvar) if by_variable else ""


def report(error: Exception, *, as_json: bool) -> None:
    """Print an error: an object on standard output, or a line each mistake on standard error."""
    if as_json:
        print_json(problem(error))
        return
    click.echo(f"Error: {' '.join(message_of(error).split())}", err=True)
    for other in getattr(error, "others", ()):
        click.echo(f"Also: {' '.join(other.message.split())}", err=True)
    context = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and context is not None:
        click.echo(f"Try: {context.command_path} --help", err=True)


def _is_refused(error: PerfModelError) -> bool:
    """Tell whether a service refused what it was asked, as this machine would have."""
    # Imported here: a command that asks no service shall not pay for the client.
    from perfmodel.client.errors import RefusedError

    return isinstance(error, RefusedError)


def _kind(error: Exception) -> str:
    """Turn the class name into words: ``UnknownModelError`` becomes ``unknown-model``."""
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
