"""Refuse what a job says of its model besides its structure: files, folders, places, code, weights.

The libraries that build models take arguments and configurations that were meant for people at
their own machine: names that are looked up on disk or on the network, checkpoints, code beside a
configuration. Here they come from strangers, and say what a model is made of, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import shown

#: Where weights, code and files come from; wherever one of these stands.
REFUSED = frozenset(
    {
        "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "pretrained_strict",
        "pretrained_model_name_or_path", "checkpoint_path", "cache_dir", "local_dir", "file",
        "url", "trust_remote_code", "code_revision", "custom_load", "state_dict", "gguf_file",
    }
)  # fmt: skip

#: Notes of those who stored a configuration: what they say changes no structure.
NOTES = frozenset(
    {
        "auto_map", "_name_or_path", "name_or_path", "_commit_hash", "custom_pipelines", "license",
        "task_specific_params", "tokenizer_class", "processor_class", "transformers_version",
        "use_pretrained_backbone", "finetuning_task",
    }
)  # fmt: skip

#: Texts of theirs by number, of which the number of entries alone counts.
_LABELS = ("id2label", "label2id")

_MOST_CHARACTERS = 200
#: What a name of a place has and the name of an activation or a layer does not.
_OF_A_PLACE = ("/", "\\", ":", "~", "\0", "..")


def structure_of(fields: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return arguments or a configuration without notes.

    Raises
    ------
    InvalidInputError
        Something that would make a library look elsewhere; ``pointer`` says what.

    Examples
    --------
    >>> structure_of({"depth": 3, "license": "mit"}, "/job/hf_config")
    {'depth': 3}
    >>> structure_of({"backbone": "local-dir:/etc"}, "/job/hf_config")
    Traceback (most recent call last):
    perfmodel.errors.InvalidInputError: backbone names a place, 'local-dir:/etc': a model is said \
by its structure. Leave it out, or state the sizes that it stands for.
    """
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if name in NOTES:
            continue
        if name in _LABELS and isinstance(value, Mapping):
            kept[name] = _unnamed(name, value)
            continue
        if name in REFUSED and value not in (None, False):
            raise InvalidInputError(
                f"{name!r} is refused: models are built from their structure, without weights, "
                "files or code from elsewhere. Leave it out.",
                pointer=f"{pointer}/{name}",
            )
        kept[name] = _structure(name, value, f"{pointer}/{name}")
    return kept


def names_in(fields: Mapping[str, Any], wanted: str, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the texts that stand under a name anywhere below, with where they stand."""
    for name, value in fields.items():
        at = f"{pointer}/{name}"
        if isinstance(value, Mapping):
            yield from names_in(value, wanted, at)
        elif name == wanted and isinstance(value, str):
            yield value, at


def _structure(name: str, value: Any, pointer: str) -> Any:
    if isinstance(value, str):
        _check_text(name, value, pointer)
    elif isinstance(value, Mapping):
        return structure_of(value, pointer)
    elif isinstance(value, list | tuple):
        return [_structure(name, each, f"{pointer}/{i}") for i, each in enumerate(value)]
    return value


def _check_text(name: str, text: str, pointer: str) -> None:
    if any(mark in text for mark in _OF_A_PLACE) or text.startswith("."):
        raise InvalidInputError(
            f"{name} names a place, {shown(text)}: a model is said by its structure. Leave it out, "
            "or state the sizes that it stands for.",
            pointer=pointer,
        )
    if len(text) > _MOST_CHARACTERS:
        raise InvalidInputError(
            f"{name} has {len(text)} characters; at most {_MOST_CHARACTERS} are taken for a name.",
            pointer=pointer,
        )


def _unnamed(name: str, labels: Mapping[str, Any]) -> dict[str, Any]:
    numbers = range(len(labels))
    if name == "id2label":
        return {str(number): f"LABEL_{number}" for number in numbers}
    return {f"LABEL_{number}": number for number in numbers}
