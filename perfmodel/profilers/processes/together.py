"""Run one function in several processes at once, and end all of them whatever happens.

A member that fails, dies or takes too long ends the measurement with an error that says which
one it was; nobody waits for it longer than agreed. Each member leads a process group of its own,
so that its children (the workers of a loader) end with it, and it ends itself when whoever started
it is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any

from perfmodel.errors import MeasurementError, PerfModelError
from perfmodel.profilers.processes.meeting import Meeting
from perfmodel.profilers.worker import end_with_parent

#: What the server that members are forked from has imported already; absent libraries are passed
#: over. Optimizers import the compiler when they are made.
_PRELOAD = ["torch.distributed.fsdp", "torch._dynamo", "perfmodel.zoo.references.reference"]
#: How long members that were told of another's end may take to say what they saw.
_GRACE_S = 1.0
_TAIL_CHARACTERS = 600


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """What one process is given.

    Parameters
    ----------
    arguments : tuple
        Of the function, after the :class:`~.meeting.Meeting`.
    cores : tuple of int
        Logical processors that it is bound to; empty: any.
    """

    arguments: tuple[Any, ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(kw_only=True)
class _Running:
    """Members that run, with what came of them so far."""

    what: str
    processes: list[Any] = field(default_factory=list)
    receivers: list[Connection] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)

    def open(self) -> list[Connection]:
        return [
            receiver
            for position, receiver in enumerate(self.receivers)
            if position not in self.answers and position not in self.failures
        ]


def run_together(
    run: Callable[..., Any],
    members: Sequence[Member],
    *,
    timeout_s: float,
    what: str = "process",
) -> list[Any]:
    """Call a function in one process for each member, all at once, and return what they return.

    Parameters
    ----------
    run : callable
        A function of a module, given a :class:`~.meeting.Meeting` and the member's arguments.
    timeout_s : float
        For all of it, the start of processes included.
    what : str
        What a member is called in errors: ``"rank"``.

    Returns
    -------
    list
        By member.

    Raises
    ------
    MeasurementError
        A member failed, ended without an answer, or was not done in time.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    meeting = Meeting(context, len(members))
    running = _Running(what=what)
    try:
        for member in members:
            receiver, sender = context.Pipe(duplex=False)
            running.receivers.append(receiver)
            process = context.Process(target=_member, args=(sender, run, meeting, member))
            running.processes.append(process)
            process.start()
            sender.close()
        _collect(running, time.monotonic() + timeout_s)
    finally:
        _end(running)
    if running.failures or running.open():
        raise MeasurementError(_failure(running, timeout_s))
    return [running.answers[position] for position in range(len(members))]


def _collect(running: _Running, deadline_s: float) -> None:
    """Read answers until all are there, time is up, or some grace after the first failure."""
    while running.open():
        left_s = deadline_s - time.monotonic()
        ready = connection.wait(running.open(), timeout=left_s) if left_s > 0 else []
        if not ready:
            return
        for receiver in ready:
            _read(running, running.receivers.index(receiver))  # type: ignore[arg-type]
        if running.failures:
            deadline_s = min(deadline_s, time.monotonic() + _GRACE_S)


def _read(running: _Running, position: int) -> None:
    try:
        answered, value = running.receivers[position].recv()
    except (EOFError, OSError):
        process = running.processes[position]
        process.join(_GRACE_S)
        running.failures[position] = _exit_reason(process.exitcode)
        return
    (running.answers if answered else running.failures)[position] = value


def _failure(running: _Running, timeout_s: float) -> str:
    """Say what went wrong; a process that died comes first, since others fail because of it."""
    said = sorted(running.failures.items(), key=lambda item: not item[1].startswith("ended"))
    lines = [f"{running.what} {position} {reason}" for position, reason in said]
    if not lines:
        slow = [i for i in range(len(running.processes)) if i not in running.answers]
        return (
            f"{running.what} {', '.join(map(str, slow))} gave no answer within {timeout_s:g} s and "
            "was ended. Give more time, or make what is measured smaller."
        )
    return "; ".join(dict.fromkeys(lines))


def _exit_reason(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (too little memory?)" if name == "SIGKILL" else ""
        return f"ended by {name}{hint} without an answer"
    return f"ended with status {exit_code} and without an answer"


def _end(running: _Running) -> None:
    """End every member and its children; those that have answered may do so by themselves."""
    for position, process in enumerate(running.processes):
        if position in running.answers and not running.failures:
            process.join(_GRACE_S)
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
    for receiver in running.receivers:
        receiver.close()


def _member(sender: Connection, run: Callable[..., Any], meeting: Meeting, member: Member) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    # With its children.
    end_with_parent(lambda: os.killpg(0, signal.SIGKILL))
    if member.cores:
        os.sched_setaffinity(0, member.cores)
    with _quiet():
        sender.send(_answer(run, meeting, member))
    sender.close()


def _answer(run: Callable[..., Any], meeting: Meeting, member: Member) -> tuple[bool, Any]:
    try:
        return True, run(meeting, *member.arguments)
    except PerfModelError as error:
        return False, f"failed: {error}"
    except Exception as error:  # a model's own code may raise anything
        tail = traceback.format_exc()[-_TAIL_CHARACTERS:]
        return False, f"failed: {type(error).__name__}: {error}\n{tail}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what libraries print to nowhere; progress stays readable."""
    with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as nowhere:
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        yield
