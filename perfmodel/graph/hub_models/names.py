"""From the name of a model on a hub to its configuration; nothing is downloaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

#: Pipelines of several models, and the workload of the one that nearly all of their time goes to.
DENOISERS = {
    "stable-diffusion": "zoo/sd15-unet",
    "stable-diffusion-v1-5": "zoo/sd15-unet",
    "sdxl": "zoo/sdxl-unet",
    "stable-diffusion-xl": "zoo/sdxl-unet",
    "compvis/stable-diffusion-v1-4": "zoo/sd15-unet",
    "runwayml/stable-diffusion-v1-5": "zoo/sd15-unet",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "zoo/sd15-unet",
    "stabilityai/stable-diffusion-xl-base-1.0": "zoo/sdxl-unet",
    "stabilityai/sdxl-turbo": "zoo/sdxl-unet",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HubModel:
    """An open model.

    Parameters
    ----------
    parameters : int
        Tied tables count once.
    config : mapping
        Fields of a transformers config; what is left out has the library's default.
    """

    name: str
    parameters: int
    config: Mapping[str, Any]


def hub_model(name: str) -> HubModel | None:
    """Return the model of a name, in whatever case; None where none is known by it.

    Examples
    --------
    >>> hub_model("meta-llama/Llama-3.1-8B-Instruct").name
    'meta-llama/Llama-3.1-8B'
    >>> hub_model("timm/resnet50") is None
    True
    """
    return _by_name().get(name.casefold())


def hub_names() -> tuple[str, ...]:
    """Return every name that is known, those of variants too."""
    return tuple(_written())


@cache
def hub_models() -> tuple[HubModel, ...]:
    """Return all models; read once."""
    return tuple(
        HubModel(
            name=name,
            parameters=row["parameters"],
            config={**row["config"], **dict.fromkeys(row.get("without", ()))},
        )
        for name, row in _content().items()
    )


def hub_name(config: Mapping[str, Any]) -> str | None:
    """Return the name of a configuration that is one of these as it stands; None for all others."""
    return next((one.name for one in hub_models() if one.config == config), None)


@cache
def _by_name() -> dict[str, HubModel]:
    models = {one.name: one for one in hub_models()}
    return {written.casefold(): models[name] for written, name in _written().items()}


@cache
def _written() -> dict[str, str]:
    """Return the canonical name by each name."""
    rows = _content().items()
    return {written: name for name, row in rows for written in (name, *row.get("also", ()))}


@cache
def _content() -> dict[str, dict[str, Any]]:
    text = (resources.files(__package__) / "models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
