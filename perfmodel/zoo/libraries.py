"""Import the model libraries so that they load beside any build of torch, and stay off line."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from perfmodel.errors import MissingExtraError

#: Keeps the declarations alive: a library that is collected takes its operators with it.
_DECLARED: list[Any] = []


def import_timm() -> ModuleType:
    """Import timm.

    timm imports torchvision by name only. The torchvision wheel from PyPI holds CUDA code and
    cannot load its operators beside a CPU build of torch; its import then fails at the two
    operators for which it registers a shape rule. Declaring their schemas first is enough.

    Raises
    ------
    MissingExtraError
        timm or torch is not installed.
    """
    _require("timm", "timm models")
    _require("torch", "timm models")
    _keep_offline()
    declare_torchvision_operators()
    return importlib.import_module("timm")


def import_transformers() -> ModuleType:
    """Import transformers, off line: a config must never fetch anything.

    Raises
    ------
    MissingExtraError
        transformers or torch is not installed.
    """
    _require("transformers", "transformers configs")
    _require("torch", "transformers configs")
    _keep_offline()
    declare_torchvision_operators()
    return importlib.import_module("transformers")


def declare_torchvision_operators() -> None:
    """Declare ``torchvision::nms`` and ``qnms`` where torchvision cannot load its own.

    Does nothing without torchvision, or where its compiled operators load.
    """
    torch: Any = importlib.import_module("torch")
    if _DECLARED or importlib.util.find_spec("torchvision") is None or _operators_load(torch):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)


def _operators_load(torch: Any) -> bool:
    spec = importlib.util.find_spec("torchvision")
    folders = spec.submodule_search_locations if spec else None
    for path in (p for folder in folders or () for p in Path(folder).glob("_C*.so")):
        try:
            torch.ops.load_library(str(path))
        except OSError:
            return False
    return hasattr(torch.ops.torchvision, "nms")


def _require(library: str, feature: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise MissingExtraError(f"Capturing {feature} ({library} is not installed)", extra="train")


def _keep_offline() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
