"""From a transformers config to the class that is built from it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InvalidInputError, MissingExtraError, UnknownModelError
from perfmodel.graph.job import Job
from perfmodel.json_values import shown
from perfmodel.zoo.libraries import import_timm, import_transformers
from perfmodel.zoo.size_check import check_size
from perfmodel.zoo.structure_check import names_in, structure_of

#: Heads in the order in which they are tried where a config does not name its architecture. A
#: model type usually has several; the first is what the type is best known for.
HEADS = (
    "AutoModelForSeq2SeqLM",
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForCTC",
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForZeroShotImageClassification",
    "AutoModelForImageClassification",
    "AutoModelForSemanticSegmentation",
    "AutoModelForObjectDetection",
    "AutoModelForDepthEstimation",
    "AutoModelForAudioClassification",
    "AutoModelForVideoClassification",
    "AutoModelForImageTextToText",
    "AutoModel",
)

#: Fields that a stored config carries but that say nothing about one step of the model, or that
#: the job decides (numeric type, caching) or that would load code or weights.
_DROPPED = frozenset(
    {
        "architectures", "dtype", "torch_dtype", "use_cache", "gradient_checkpointing",
        "experts_implementation",
    }
)  # fmt: skip

_ATTENTION = ("sdpa", "eager")
_MISSPELT_RATIO = 0.88


def load_config(source: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """Read a transformers config.

    Raises
    ------
    InvalidInputError
        A file that cannot be read, is no JSON object, or contains NaN.
    """
    if isinstance(source, Mapping):
        return dict(source)
    path = Path(source)
    try:
        config = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise InvalidInputError(f"Cannot read the config {path}: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidInputError(f"The config {path} is not valid JSON: {error}.") from error
    if not isinstance(config, dict):
        raise InvalidInputError(
            f"The config {path} must be a JSON object, got {type(config).__name__}."
        )
    return config


def make_config(fields: Mapping[str, Any]) -> Any:
    """Make the transformers config object of some fields.

    Parameters
    ----------
    fields : mapping
        With ``model_type``, or with ``architectures`` that implies it.

    Raises
    ------
    UnknownModelError
        A model type that this transformers version does not have.
    InvalidInputError
        A field that is misspelt, of the wrong type or refused.
    """
    transformers = import_transformers()
    _check_fields(fields, "/job/hf_config")
    check_size(Job(hf_config=fields))
    model_type = _model_type(fields)
    kept = {k: v for k, v in fields.items() if k not in _DROPPED and k != "model_type"}
    kept = structure_of(kept, "/job/hf_config")
    _check_backbones(kept)
    try:
        config = transformers.AutoConfig.for_model(model_type, **kept)
        parts = (config, config.get_text_config())
    except ImportError as error:
        raise MissingExtraError(f"Reading this config ({error})", extra="train") from error
    except Exception as error:
        raise InvalidInputError(
            f"transformers refuses the config of {model_type!r}: {_one_line(error)}",
            pointer="/job/hf_config",
        ) from error
    _check_spelling(kept, config)
    # A cache only pays off over several steps; one step is what is captured.
    for part in parts:
        part.use_cache = False
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    return config


def build_architecture(config: Any, architectures: Any) -> torch.nn.Module:
    """Build the model of a config in fp32 on the default device.

    Parameters
    ----------
    architectures : list of str or None
        The field of that name; its first class is used where transformers has it.

    Raises
    ------
    InvalidInputError
        An unknown class, or sizes that do not fit together.
    """
    architecture = _architecture(config, architectures)
    try:
        module = architecture._from_config(config, dtype=torch.float32)
    except ImportError as error:
        raise MissingExtraError(
            f"Building {config.model_type!r} ({error})", extra="train"
        ) from error
    except Exception as error:
        raise InvalidInputError(
            f"transformers cannot build a {config.model_type!r} model of this config: "
            f"{_one_line(error)}",
            pointer="/job/hf_config",
        ) from error
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{architecture.__name__} returned {type(module).__name__}.")
    return module


def _architecture(config: Any, architectures: Any) -> Any:
    known = _architectures_of(config)
    if architectures:
        name = architectures[0] if isinstance(architectures, (list, tuple)) else architectures
        named = getattr(import_transformers(), str(name), None)
        if not _is_model_of(named, config):
            raise UnknownModelError(
                str(name),
                known=[architecture.__name__ for architecture in known],
                pointer="/job/hf_config/architectures",
                hint="Leave architectures out to take the usual head of the model type.",
            )
        return named
    if not known:
        raise InvalidInputError(
            f"transformers has no model class for the type {config.model_type!r}; name one in "
            "architectures.",
            pointer="/job/hf_config/model_type",
        )
    return known[0]


def _is_model_of(named: Any, config: Any) -> bool:
    """Tell whether something of transformers is a model that is built from such a config."""
    base = import_transformers().PreTrainedModel
    return (
        isinstance(named, type)
        and issubclass(named, base)
        and isinstance(config, getattr(named, "config_class", None) or ())
    )


def _architectures_of(config: Any) -> list[Any]:
    transformers = import_transformers()
    heads = (getattr(transformers, name, None) for name in HEADS)
    mappings = [head._model_mapping for head in heads if head is not None]
    found = [mapping[type(config)] for mapping in mappings if type(config) in mapping]
    # A few types list several classes for one head, the plain one first.
    return [classes[0] if isinstance(classes, tuple) else classes for classes in found]


def _model_type(fields: Mapping[str, Any]) -> str:
    transformers = import_transformers()
    model_type = fields.get("model_type")
    if model_type is None and fields.get("architectures"):
        factory = getattr(transformers, str(fields["architectures"][0]), None)
        model_type = getattr(getattr(factory, "config_class", None), "model_type", None)
    if model_type is None:
        raise InvalidInputError(
            "A transformers config needs model_type (such as 'bert') or architectures.",
            pointer="/job/hf_config/model_type",
        )
    known = transformers.CONFIG_MAPPING
    if not isinstance(model_type, str) or model_type not in known:
        raise UnknownModelError(
            str(model_type),
            known=list(known),
            pointer="/job/hf_config/model_type",
            hint=f"transformers {transformers.__version__} is installed.",
        )
    return model_type


def _check_fields(fields: Mapping[str, Any], pointer: str) -> None:
    if fields.get("quantization_config") is not None:
        raise InvalidInputError(
            "quantization_config is refused: quantised weights cannot be built from a config. "
            "Leave it out and set the job's precision.",
            pointer=f"{pointer}/quantization_config",
        )
    attention = fields.get("attn_implementation", fields.get("_attn_implementation"))
    if attention is not None and attention not in _ATTENTION:
        raise InvalidInputError(
            f"attn_implementation {attention!r} is refused: it needs a kernel from elsewhere. "
            "Use 'sdpa' or 'eager'.",
            pointer=f"{pointer}/attn_implementation",
            allowed=_ATTENTION,
        )
    for name, part in fields.items():
        if isinstance(part, Mapping):
            _check_fields(part, f"{pointer}/{name}")


def _check_backbones(fields: Mapping[str, Any]) -> None:
    """Refuse backbones that are no models of timm: any other name is looked up somewhere."""
    for wanted in ("backbone", "architecture"):
        for name, pointer in names_in(fields, wanted, "/job/hf_config"):
            if not import_timm().models.is_model(name.partition(".")[0]):
                raise InvalidInputError(
                    f"{wanted} {shown(name)} is no model of timm, and no other is looked up. Name "
                    "one of those, or state the backbone as backbone_config.",
                    pointer=pointer,
                )


def _check_spelling(fields: Mapping[str, Any], config: Any) -> None:
    # transformers keeps any field it does not know, so a misspelt size would silently be ignored.
    known = {*type(config)().to_dict(), *type(config).attribute_map}
    for key in fields:
        near = difflib.get_close_matches(key, known, n=1, cutoff=_MISSPELT_RATIO)
        if key not in known and near and near[0] not in fields:
            raise InvalidInputError(
                f"The config of {config.model_type!r} has no field {key!r}. Did you mean "
                f"{near[0]!r}?",
                pointer=f"/job/hf_config/{key}",
            )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
