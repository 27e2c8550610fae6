"""``timm/<name>``: image models of timm, built from their structure without their weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.bundle import ModelBundle, building_on
from perfmodel.zoo.libraries import import_timm
from perfmodel.zoo.losses import ClassificationLoss, FeatureLoss
from perfmodel.zoo.name_check import unknown_timm_model
from perfmodel.zoo.structure_check import REFUSED, structure_of

#: Arguments of ``timm.create_model`` that change what is built into something else than a model.
_REFUSED_KWARGS = frozenset({"features_only", "scriptable", "exportable", "no_jit"})

#: Argument under which branches of training are merged as for deployment.
REPARAMETERIZE = "reparameterize"

#: Old names that timm maps to a smaller model than the one they meant: how wide each is.
_BASE_WIDTHS: Mapping[str, int] = MappingProxyType(
    {f"ig_resnext101_32x{width}d": width for width in (8, 16, 32, 48)}
)


def timm_names() -> list[str]:
    """Return the name of every timm model, without prefix, sorted."""
    return sorted(import_timm().list_models())


def timm_family(name: str) -> str:
    """Return the family of a timm model: the file of timm that defines it.

    Models of one file share their building blocks, so leaving a whole file out is what makes a
    model unseen: ``resnet50`` and ``resnext50_32x4d`` are both ``resnet``.

    Parameters
    ----------
    name : str
        As in :func:`timm_names`; a pretrained tag is ignored.

    Examples
    --------
    >>> timm_family("resnext50_32x4d"), timm_family("vit_base_patch16_224.augreg_in21k")
    ('resnet', 'vision_transformer')
    """
    entry = import_timm().models.model_entrypoint(_current_name(_checked_name(name)))
    return str(entry.__module__).rpartition(".")[2]


def build_timm(
    name: str,
    model_kwargs: Mapping[str, Any] | None = None,
    *,
    batch_size: int,
    device: str = "meta",
) -> ModelBundle:
    """Build a timm model and one batch of images.

    Nothing is ever downloaded. The image is ``input_size`` of the model's pretrained
    configuration (the size it was trained at, which published FLOPs refer to) unless
    ``img_size`` is given; ``in_chans`` sets its channels.

    Parameters
    ----------
    name : str
        Without the ``timm/`` prefix. A pretrained tag (``resnet50.a1_in1k``) may follow: where it
        is known its input size counts, the weights never do.
    model_kwargs : mapping
        Arguments of the model: ``img_size`` (an int or height and width), ``num_classes``,
        ``in_chans``, ``drop_path_rate``, ...; and ``reparameterize``: branches that training needs
        are merged into single convolutions, as for deployment (RepVGG, MobileOne, ...).

    Raises
    ------
    UnknownModelError
        No such model; carries the nearest names.
    InvalidInputError
        Arguments that the model does not take.
    """
    structure = _checked_name(name)
    kwargs = _checked_kwargs(model_kwargs or {})
    merged = _flag(kwargs.pop(REPARAMETERIZE, False))
    with building_on(device):
        module = _create(*_meant(structure, kwargs))
        if merged:
            module = import_timm().utils.reparameterize_model(module)
        images = torch.randn(batch_size, *_input_size(module, name, kwargs))
        loss = _loss(module, batch_size)
    return ModelBundle(
        module=module,
        args=(images,),
        loss=loss,
        family=timm_family(structure),
        name=f"timm/{name}",
        samples=batch_size,
    )


def _checked_name(name: str) -> str:
    structure = name.partition(".")[0]
    timm = import_timm()
    if not timm.models.is_model(structure):
        raise unknown_timm_model(name, timm.list_models())
    return structure


def _current_name(structure: str) -> str:
    """Return the name that stands for a deprecated one; any other name stands for itself."""
    known = import_timm().models._registry._deprecated_models.get(structure)
    return str(known).partition(".")[0] if known else structure


def _meant(structure: str, kwargs: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the arguments of the model that a name means."""
    width = _BASE_WIDTHS.get(structure)
    if width is None:
        return structure, kwargs
    return _current_name(structure), {"base_width": width, **kwargs}


def _checked_kwargs(model_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    for key in model_kwargs:
        if key in _REFUSED_KWARGS or key in REFUSED:
            raise InvalidInputError(
                f"Model argument {key!r} is refused: models are built from their structure, "
                "without weights. Leave it out.",
                pointer=f"/job/model_kwargs/{key}",
            )
    kwargs = structure_of(model_kwargs, "/job/model_kwargs")
    for key, least in (("in_chans", 1), ("num_classes", 0)):
        _check_whole(kwargs.get(key), key, least)
    if kwargs.get("img_size") is not None:
        kwargs["img_size"] = _image_extents(kwargs["img_size"])
    return kwargs


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"{REPARAMETERIZE} must be true or false, got {value!r}.",
            pointer=f"/job/model_kwargs/{REPARAMETERIZE}",
        )
    return value


def _check_whole(value: Any, key: str, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError(
            f"{key} must be a whole number >= {least}, got {value!r}.",
            pointer=f"/job/model_kwargs/{key}",
        )


def _image_extents(img_size: Any) -> tuple[int, int]:
    extents = tuple(img_size) if isinstance(img_size, (list, tuple)) else (img_size, img_size)
    whole = all(isinstance(e, int) and not isinstance(e, bool) and e >= 1 for e in extents)
    if len(extents) != 2 or not whole:
        raise InvalidInputError(
            f"img_size must be a whole number >= 1 or [height, width], got {img_size!r}.",
            pointer="/job/model_kwargs/img_size",
        )
    return (extents[0], extents[1])


def _create(name: str, kwargs: Mapping[str, Any]) -> torch.nn.Module:
    timm = import_timm()
    try:
        module = timm.create_model(name, pretrained=False, **kwargs)
    except TypeError as error:
        # Only models with positional parameters take the image size as an argument.
        if "img_size" in kwargs and "'img_size'" in str(error):
            return _create(name, {k: v for k, v in kwargs.items() if k != "img_size"})
        raise _refusal(name, kwargs, error) from error
    except Exception as error:
        raise _refusal(name, kwargs, error) from error
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"timm.create_model({name!r}) returned {type(module).__name__}.")
    return module


def _refusal(name: str, kwargs: Mapping[str, Any], error: Exception) -> InvalidInputError:
    given = ", ".join(f"{key}={value!r}" for key, value in kwargs.items()) or "no arguments"
    return InvalidInputError(
        f"timm cannot build {name!r} with {given}: {type(error).__name__}: {error}",
        pointer="/job/model_kwargs",
    )


def _input_size(
    module: torch.nn.Module, name: str, kwargs: Mapping[str, Any]
) -> tuple[int, int, int]:
    timm = import_timm()
    known = timm.models.get_pretrained_cfg(name, allow_unregistered=False) if "." in name else None
    default: Any = module.pretrained_cfg
    channels, height, width = known.input_size if known is not None else default["input_size"]
    if kwargs.get("img_size") is not None:
        height, width = kwargs["img_size"]
    return (int(kwargs.get("in_chans") or channels), int(height), int(width))


def _loss(module: torch.nn.Module, batch_size: int) -> ClassificationLoss | FeatureLoss:
    classes = int(getattr(module, "num_classes", 0) or 0)
    if classes == 0:
        return FeatureLoss()
    return ClassificationLoss(torch.randint(classes, (batch_size,)))
