"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_options(command: _Command) -> _Command:
    """Add ``--json`` (as ``as_json``) and ``--debug`` to a command."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
    )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON and nothing else on standard output."
    )(command)


def job_options(command: _Command) -> _Command:
    """Add the settings of a job; unset ones stay None and get the defaults of a job."""
    for option in reversed(_JOB_OPTIONS):
        command = option(command)
    return command


def _words(kind: type[Mode | Precision | MemoryFormat | Compiler]) -> str:
    return f"[{'|'.join(word.value for word in kind)}]"


# Words are checked by the reader of requests, not by click: one wording for all ways to ask.
_JOB_OPTIONS = (
    click.option("--batch-size", type=int, default=1, show_default=True, help="Samples per step."),
    click.option(
        "--mode", default="inference", show_default=True, metavar=_words(Mode), help="One step is."
    ),
    click.option("--precision", metavar=_words(Precision), help="Arithmetic. [default: fp32]"),
    click.option(
        "--optimizer",
        metavar="[sgd|momentum|adam|adamw|adafactor|lamb]",
        help="Of a training step. [default: sgd]",
    ),
    click.option("--memory-format", metavar=_words(MemoryFormat), help="Layout of images."),
    click.option("--compiler", metavar=_words(Compiler), help="What runs it. [default: eager]"),
    click.option("--accumulation-steps", type=int, help="Micro-batches per optimizer step."),
    click.option("--sequence-length", type=int, help="Tokens per sample, for sequence models."),
    click.option(
        "--activation-checkpointing/--no-activation-checkpointing",
        default=None,
        help="Compute activations again in the backward pass.",
    ),
    click.option(
        "--model-kwarg",
        "model_kwargs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Keyword of the named model, the value as JSON: img_size=192. Repeatable.",
    ),
)
