"""What a user names on the command line: a model, a config file, an ONNX file or a graph file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.cli.options import refuse_options
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job
    from perfmodel.profilers.onnx_file import OnnxFile

#: Options that a job does not hold itself.
_NOT_OF_THE_JOB = frozenset(
    {"model_kwargs", "dims", "inputs", "config", "models", "service", "key", "fall_back"}
)
#: Options that mean nothing in inference, which requests may state all the same.
_OF_TRAINING = ("optimizer", "activation_checkpointing")
#: Files of weights, which say nothing of what is done with them.
_WEIGHTS = frozenset({".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".gguf", ".h5"})
#: Larger JSON files are no configs, requests or graphs.
_MAX_JSON_BYTES = 512 * 1024 * 1024
#: Files that list jobs.
_LISTS = (".jsonl", ".toml")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One MODEL argument, read but not yet captured.

    The reference is the part of a job that names the model: ``{"model": ...}`` or
    ``{"hf_config": ...}``. It is empty for an ONNX file, a Python file with a name in it, a graph
    that ``perfmodel capture`` wrote, and a whole request with its job and placement.
    """

    reference: Mapping[str, Any]
    onnx: Path | None = None
    python: tuple[Path, str] | None = None
    graph: Graph | None = None
    request: Mapping[str, Any] | None = None


def read_subject(text: str, model_kwargs: Sequence[str] = ()) -> Subject:
    """Find out what a MODEL argument names.

    It is ``timm/<name>``, ``zoo/<name>`` or the name of an open model, with what ``--model-kwarg``
    was given; a ``.json`` file (transformers config, captured graph or request); an ``.onnx`` file;
    or ``train.py:model``, what a Python file calls by a name.

    Raises
    ------
    InvalidInputError
        A file that is not there or is none of these.
    """
    path = Path(text)
    if path.suffix == ".onnx":
        return Subject(reference={}, onnx=_existing(path))
    if path.suffix == ".json":
        return _read_json_subject(_existing(path))
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return Subject(reference={}, python=(_existing(Path(file)), name))
    if path.suffix == ".py":
        raise InvalidInputError(
            f"Say what {text} calls the model: {text}:NAME, a module or a function that makes one."
        )
    _refuse_files(path)
    reference: dict[str, Any] = {"model": text}
    if model_kwargs:
        reference["model_kwargs"] = parse_pairs(model_kwargs, option="--model-kwarg")
    return Subject(reference=reference)


def _refuse_files(path: Path) -> None:
    """Refuse a file that names no model, with what to give instead."""
    if path.suffix.lower() in _WEIGHTS:
        raise InvalidInputError(
            f"{path} holds weights, which do not say what is computed. Give the model's "
            "config.json, an ONNX file, or a Python file and what makes the model: train.py:model."
        )
    if path.is_file():
        raise InvalidInputError(
            f"{path} is no .json, .onnx or .py file. A transformers config of another name is "
            f"given as --config {path}."
        )


def read_config(path: Path) -> Subject:
    """Read a file that holds a transformers config, whatever it is called.

    Raises
    ------
    InvalidInputError
        A file that is not there, or is none.
    """
    value = read_json(_existing(path))
    if not isinstance(value, Mapping) or not {"model_type", "architectures"} & value.keys():
        raise InvalidInputError(
            f"{path} is no transformers config: it has neither 'model_type' nor 'architectures'."
        )
    return Subject(reference={"hf_config": value})


def jobs_of(subject: str, settings: Mapping[str, Any]) -> list[Job]:
    """Return the jobs of a FILE|MODEL argument that can be run, with the options of a command.

    Raises
    ------
    InvalidInputError
        A list of jobs that cannot be read, a file or graph that is no model to be built, or a
        name that no model has.
    """
    from perfmodel.profilers.job_list import read_jobs

    if is_list(subject):
        return read_jobs(Path(subject))
    read = read_subject(subject, settings["model_kwargs"])
    if read.onnx is not None:
        from perfmodel.profilers.onnx_file import ONLY_PROFILED

        raise InvalidInputError(f"{subject} is an ONNX file. {ONLY_PROFILED}")
    if not read.reference:
        raise InvalidInputError(
            f"{subject} cannot be run: give a model by name, a transformers config or, to "
            "`perfmodel profile`, an ONNX file."
        )
    from perfmodel.zoo.resolve import check_job

    job = job_of(read.reference, settings)
    check_job(job)
    return [job]


def is_list(subject: str) -> bool:
    """Tell whether an argument names a list of jobs, which carry their own settings."""
    return Path(subject).suffix in _LISTS


def jobs_of_all(subjects: Sequence[str], settings: Mapping[str, Any]) -> list[Job]:
    """Return the jobs of several arguments; as :func:`jobs_of`.

    Raises
    ------
    InvalidInputError
        Options that say nothing of any of them.
    """
    _refuse_unused(subjects, settings)
    return [job for subject in subjects for job in jobs_of(subject, settings)]


def _refuse_unused(subjects: Sequence[str], settings: Mapping[str, Any]) -> None:
    if subjects and all(map(is_list, subjects)):
        refuse_options({**settings, "dims": ()}, "Jobs of a list say")


def jobs_and_files(
    subjects: Sequence[str], settings: Mapping[str, Any]
) -> tuple[list[Job], dict[str, OnnxFile]]:
    """Return the jobs of FILE|MODEL arguments, with the ONNX files among them by their graphs.

    Raises
    ------
    PerfModelError
        As :func:`jobs_of` and :func:`~perfmodel.profilers.onnx_file.file_job`; dimensions where
        no ONNX file is named.
    """
    _refuse_unused(subjects, settings)
    dimensions = read_dims(settings["dims"])
    found = [pair for one in subjects for pair in _jobs_and_files(one, settings, dimensions)]
    files = {str(job.graph): file for job, file in reversed(found) if file is not None}
    if dimensions and not files:
        raise InvalidInputError("--dim binds dimensions of an .onnx file; this is none.")
    return [job for job, _ in found], files


def _jobs_and_files(
    subject: str, settings: Mapping[str, Any], dimensions: Mapping[str, int]
) -> list[tuple[Job, OnnxFile | None]]:
    from perfmodel.profilers.job_list import read_jobs_and_files
    from perfmodel.profilers.onnx_file import OnnxFile, file_job

    path = Path(subject)
    if is_list(subject):
        return read_jobs_and_files(path, dimensions)
    if path.suffix != ".onnx":
        return [(job, None) for job in jobs_of(subject, settings)]
    file = OnnxFile(
        path=_existing(path).absolute(), dimensions=dimensions, batch_size=settings["batch_size"]
    )
    return [(file_job(file, {key: settings[key] for key in settings if key != "dims"}), file)]


def read_dims(dims: Sequence[str]) -> dict[str, int]:
    """Read ``NAME=VALUE`` pairs of dynamic dimensions.

    Raises
    ------
    InvalidInputError
        A value that is no whole number >= 1.

    Examples
    --------
    >>> read_dims(["seq=128"])
    {'seq': 128}
    """
    pairs = parse_pairs(dims, option="--dim")
    for name, value in pairs.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInputError(f"--dim {name} must be a whole number >= 1; got {value!r}.")
    return pairs


def job_of(reference: Mapping[str, Any], settings: Mapping[str, Any]) -> Job:
    """Return the job that a model reference and the options of a command make.

    Options that are None have their defaults: the mode is inference, the batch size 1.

    Raises
    ------
    InvalidInputError
        As :func:`perfmodel.requests.parse_job`; an option of training where the mode is inference,
        as it is where nobody says.
    """
    from perfmodel.requests import parse_job

    given = {
        name: value
        for name, value in settings.items()
        if name not in _NOT_OF_THE_JOB and value is not None
    }
    job = parse_job({"mode": "inference", "batch_size": 1, **reference, **given})
    for name in _OF_TRAINING if job.mode == "inference" else ():
        if given.get(name, "none") != "none":
            raise InvalidInputError(
                f"{name} says how a job trains, and inference trains nothing. Leave it out, or use "
                "the mode 'training' (--mode training).",
                pointer=f"/job/{name}",
            )
    return job


def describe_job(job: Job, file: str | None = None) -> str:
    """Return a job in one line, for people.

    Parameters
    ----------
    file : str or None
        What was named, where the job has a graph that comes from a file of this machine.

    Examples
    --------
    >>> describe_job(job_of({"model": "timm/resnet50"}, {"batch_size": 64, "mode": "training"}))
    'timm/resnet50, training, batch 64, fp32, sgd, eager'
    >>> describe_job(job_of({"graph": "ecd130165070"}, {}), "train.py:model")
    'train.py:model, graph/ecd130165070, inference, batch 1, fp32, eager'
    """
    mixed = job.mixed_precision is not None
    precision = f"{job.precision} computed in {job.arithmetic}" if mixed else str(job.precision)
    words = [job.label, str(job.mode), f"batch {job.batch_size}", precision]
    if job.graph is not None and file is not None:
        words.insert(0, file)
    if job.accumulation_steps > 1:
        words.append(f"{job.accumulation_steps} micro-batches")
    if job.sequence_length is not None:
        words.append(f"{job.sequence_length} tokens")
    if job.mode == "training":
        words += [job.optimizer, *_how_it_trains(job)]
    return ", ".join([*words, str(job.compiler)])


def _how_it_trains(job: Job) -> list[str]:
    said = {
        "LoRA": job.adapter is not None,
        "some frozen": bool(job.frozen),
        "recomputing": job.activation_checkpointing,
        "recomputing attention": job.selective_checkpointing,
    }
    return [words for words, holds in said.items() if holds]


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    InvalidInputError
        Not JSON (NaN included), or too large.
    """
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise InvalidInputError(f"{path} is larger than {_MAX_JSON_BYTES} bytes.")
    return parse_json(path.read_bytes(), source=str(path))


def parse_json(text: bytes | str, *, source: str) -> Any:
    """Decode JSON strictly: no NaN, no trailing text; a message names its source.

    Raises
    ------
    InvalidInputError
        With the place where it breaks.

    Examples
    --------
    >>> parse_json('{"batch_size": 64}', source="line 1")
    {'batch_size': 64}
    """
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"{source} is not JSON: {error}.") from None


def parse_pairs(pairs: Sequence[str], *, option: str) -> dict[str, Any]:
    """Read the ``NAME=VALUE`` pairs of an option; a value that is no JSON is a text.

    Raises
    ------
    InvalidInputError
        A pair without ``=``, or a name twice.

    Examples
    --------
    >>> parse_pairs(["img_size=192", "act_layer=gelu"], option="--model-kwarg")
    {'img_size': 192, 'act_layer': 'gelu'}
    """
    import orjson

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidInputError(f"{option} takes NAME=VALUE; got {pair!r}.")
        if name in found:
            raise InvalidInputError(f"{option} gives {name!r} twice.")
        try:
            found[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[name] = value
    return found


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInputError(f"There is no file {str(path)!r}.")
    return path


def _read_json_subject(path: Path) -> Subject:
    value = read_json(path)
    if isinstance(value, Mapping):
        if "nodes" in value and "tensors" in value:
            from perfmodel.graph.canonical import from_json

            return Subject(reference={}, graph=from_json(path.read_bytes()))
        if "job" in value:
            return Subject(reference={}, request=value)
        if "model_type" in value or "architectures" in value:
            return Subject(reference={"hf_config": value})
        if "_diffusers_version" in value:
            raise InvalidInputError(
                f"{path} is a config of diffusers. Make the model of it in a Python file, as "
                "examples/diffusion.py does, and give that: diffusion.py:unet."
            )
    raise InvalidInputError(
        f"{path} is neither a request (it has no 'job'), nor a transformers config (no "
        "'model_type'), nor a captured graph (no 'nodes')."
    )
