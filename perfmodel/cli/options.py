"""Options that several commands take."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from perfmodel.cli.output import tell
from perfmodel.errors import InvalidInputError
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class FiniteRange(click.FloatRange):
    """A number within bounds; what is none, and no bound would catch, is refused."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """Read a number."""
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", parameter, context)
        return number


def _the_only_one(
    ctx: click.Context, param: click.Parameter, stated: tuple[str, ...]
) -> str | None:
    if len(stated) > 1:
        raise click.BadParameter(
            f"it is stated once here; got {', '.join(stated)}. `perfmodel compare` ranks several.",
            ctx=ctx,
            param=param,
        )
    return stated[0] if stated else None


def on_option(
    name: str, help_text: str, *, required: bool = False
) -> Callable[[CommandT], CommandT]:
    """Return ``--on`` of a command that asks about one placement or accelerator.

    What is stated twice is refused: of other options the last counts, and an answer does not say
    what it left out.
    """
    return click.option(
        "--on",
        name,
        metavar=name.upper(),
        multiple=True,
        required=required,
        callback=_the_only_one,
        help=help_text,
    )


def with_options(*options: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """Return what adds some options to a command, listed in their order."""

    def add(command: CommandT) -> CommandT:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def default_models() -> Path:
    """Return the folder of trained models: here, or else beside the source of this package."""
    here, shipped = Path("models"), Path(__file__).parents[2] / "models"
    return shipped if shipped.is_dir() and not here.is_dir() else here


#: ``--debug``; the group reads it from the command line itself.
debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
)
#: ``--json`` (as ``as_json``) and ``--debug``.
output_options = with_options(
    click.option(
        "--json", "as_json", is_flag=True, help="Print JSON and nothing else on standard output."
    ),
    debug_option,
)


def _local_models(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """Return a folder of models; of a URL the local copy, which follows it now."""
    if "://" not in value:
        stated = ctx.get_parameter_source(param.name or "") is not ParameterSource.DEFAULT
        if stated and not Path(value).is_dir():
            tell(f"There is no folder of models {value!r}; answers are analytical.")
        return Path(value)
    from perfmodel.registry.mirror import local_models

    return local_models(value, store_options())


def store_options() -> dict[str, Any]:
    """Return what the file system of a URL of models takes besides, from the environment."""
    stated = os.environ.get("PERFMODEL_MODELS_OPTIONS") or "{}"
    try:
        found = json.loads(stated)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInputError(
            "PERFMODEL_MODELS_OPTIONS must be a JSON object of what the file system of the URL "
            f"takes; got {stated[:80]!r}."
        )
    return found


def _models_option(read: Callable[..., Any] | None) -> Callable[[CommandT], CommandT]:
    return click.option(
        "--models",
        callback=read,
        metavar="FOLDER|URL",
        envvar="PERFMODEL_MODELS",
        default=lambda: str(default_models()),
        help="Folder of trained models, or a URL of fsspec. [default: models; environment: "
        "PERFMODEL_MODELS]",
    )


#: Where models are read from, as ``models``: a local folder.
models_option = _models_option(_local_models)
#: Where models are kept, as ``models``: a local folder or a URL, as it was said.
models_store_option = _models_option(None)
#: What the ensemble is made of, as ``members``.
members_option = click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME",
    help="Predictor that the ensemble mixes. Repeatable. [default: operators, gbdt, gnn]",
)
#: ``--engine`` and ``--address``: where captures and fits run.
engine_options = with_options(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="What runs captures and fits: this machine, or a Ray cluster. The model is the same.",
    ),
    click.option(
        "--address",
        metavar="HOST:PORT",
        help="Of the Ray cluster. [default: that of the environment, else one of this machine]",
    ),
)
_script_option = click.option(
    "--script/--bare",
    "script",
    default=None,
    help="The job loads, logs and waits besides its step, or does nothing else. "
    "[default: what was observed decides]",
)
#: Extents for ONNX files, as ``dims``.
dims_option = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=VALUE",
    help="Extent of a dynamic dimension of an ONNX file. Repeatable.",
)
#: What files of models take: ``config``, ``inputs`` and ``dims``.
file_options = with_options(
    click.option(
        "--config",
        type=FILE,
        help="Transformers config of the model, in the place of MODEL: its config.json.",
    ),
    click.option(
        "--inputs",
        metavar="SHAPES",
        help="Inputs of a model of a Python file, batch first: 8x3x224x224 or ids=8x128:int64.",
    ),
    dims_option,
)


def profiles_option(purpose: str) -> Callable[[CommandT], CommandT]:
    """Return what adds ``--profiles`` (as a path), the folder of records for some purpose."""
    return click.option(
        "--profiles",
        type=FOLDER,
        default=Path("profiles"),
        show_default=True,
        help=f"Folder of the records {purpose}.",
    )


def refuse_options(settings: Mapping[str, Any], carried: str) -> None:
    """Refuse options of jobs that come with all that is asked of them.

    Parameters
    ----------
    settings : mapping
        What :func:`question_options` or :func:`job_options` add.
    carried : str
        What carries them, for people.

    Raises
    ------
    InvalidInputError
        Naming the options that were stated.
    """
    stated = []
    for option in _options_of_jobs():
        said = settings.get(option.name or "")
        if option.secondary_opts and said is False:
            stated += option.secondary_opts
        elif said not in (None, (), []):
            one_of_several = option.is_flag and not option.secondary_opts
            stated += option.opts if not one_of_several or said == option.flag_value else []
    if stated:
        raise InvalidInputError(
            f"{carried} what is asked: {', '.join(stated)} would change nothing. Leave "
            f"{'it' if len(stated) == 1 else 'them'} out, or write it there."
        )


def _options_of_jobs() -> list[click.Option]:
    """Return the options that say what a job is."""

    def asks() -> None:
        """Take them."""

    added = with_options(job_options, _script_option, file_options)(asks)
    return list(reversed(added.__click_params__))  # type: ignore[attr-defined]


#: ``--device``: where steps run.
device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    metavar="[cpu|gpu|gpu:INDEX|replay:FILE]",
    help="Device of this machine; gpu is whatever accelerator PyTorch was built for.",
)
#: What of earlier runs is measured again.
retry_options = with_options(
    click.option("--retry-failed", is_flag=True, help="Measure again what failed before."),
    click.option("--retry-noisy", is_flag=True, help="Measure again what was disturbed."),
)


def _words(kind: type[Mode | Precision | MemoryFormat | Compiler]) -> str:
    return f"[{'|'.join(word.value for word in kind)}]"


def _mixed_precision(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> dict[str, str] | None:
    """Return what ``bf16,reduce=fp32`` says, by the names that jobs have for it."""
    if value is None:
        return None
    first, *others = value.split(",")
    said = {"parameter": first}
    for part in others:
        name, equals, word = part.partition("=")
        if not equals:
            raise click.BadParameter(f"{part!r} is not NAME=TYPE; write bf16,reduce=fp32.")
        said[name.strip()] = word
    return {name: word.strip() for name, word in said.items()}


def _adapter(
    ctx: click.Context, param: click.Parameter, value: Path | None
) -> dict[str, Any] | None:
    """Return what an ``adapter_config.json`` holds."""
    if value is None:
        return None
    try:
        found = json.loads(value.read_bytes())
    except OSError as error:
        raise InvalidInputError(
            f"The adapter_config.json {value} cannot be read: {error.strerror}."
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"{value} is no adapter_config.json: {error}.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{value} is no adapter_config.json: it holds no object.")
    return found


#: Who answers: ``service``, its ``key``, and whether to ``fall_back`` on this machine.
answering_options = with_options(
    click.option(
        "--service",
        metavar="URL",
        envvar="PERFMODEL_URL",
        help="Running service that answers. [environment: PERFMODEL_URL; default: this machine]",
    ),
    click.option("--key", envvar="PERFMODEL_KEY", help="Key of the service. [PERFMODEL_KEY]"),
    click.option(
        "--fall-back", is_flag=True, help="Answer here where the service does not, and say so."
    ),
)

#: The settings of a job; unset ones stay None and get the defaults of a job. Words are checked by
#: the reader of requests, not by click: one wording for all ways to ask.
job_options = with_options(
    click.option("--batch-size", type=int, help="Samples per step and replica. [default: 1]"),
    click.option("--mode", metavar=_words(Mode), help="What a step does. [default: inference]"),
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
        "--activation-checkpointing",
        "activation_checkpointing",
        flag_value="full",
        help="Compute activations again in the backward pass.",
    ),
    click.option(
        "--selective-checkpointing",
        "activation_checkpointing",
        flag_value="selective",
        help="Compute those of attention again, and no others.",
    ),
    click.option(
        "--no-activation-checkpointing",
        "activation_checkpointing",
        flag_value="none",
        help="Keep all activations.",
    ),
    click.option(
        "--mixed-precision",
        callback=_mixed_precision,
        metavar="TYPE[,reduce=TYPE][,buffer=TYPE]",
        help="Keep fp32 weights and compute with them in bf16 or fp16, as FSDP does: "
        "bf16,reduce=fp32.",
    ),
    click.option(
        "--adapter",
        type=FILE,
        callback=_adapter,
        help="Train a LoRA: its adapter_config.json, of which no weights are read.",
    ),
    click.option(
        "--frozen",
        multiple=True,
        callback=lambda ctx, param, value: list(value) or None,
        metavar="PATTERN",
        help="Parameters that are not trained: names with * and ?. Repeatable.",
    ),
    click.option(
        "--model-kwarg",
        "model_kwargs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Keyword of the named model, the value as JSON: img_size=192. Repeatable.",
    ),
)
#: All that a question takes besides its model and placement, and ``--json``. The settings of its
#: job, ``dims``, ``inputs``, ``config`` and ``models`` are what :mod:`perfmodel.cli.asking.prepare`
#: takes.
question_options = with_options(
    job_options, _script_option, file_options, models_option, output_options
)
