"""Names of models as people say them: without the owner, with other separators, of torchvision.

A name is read where it can mean one model; where it can mean several it is left, and those are what
to suggest (:func:`suggested_models`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources

from perfmodel.errors import nearest_names
from perfmodel.graph.hub_models.names import hub_model, hub_names

#: What precedes the name of a model in its address.
_ADDRESS = re.compile(r"(https?://)?(www\.)?(huggingface\.co|hf\.co)/|(hf|huggingface):(//)?", re.I)
_TORCHVISION = re.compile(r"torchvision([./]models)?[./]", re.I)
#: What says how a model was tuned, which leaves its dimensions as they are.
_TUNED = frozenset({"instruct", "chat", "it", "pt", "hf"})
_RELEASE = re.compile(r"v\d+(\.\d+)*")
#: Models that torchvision and timm name unlike.
_OF_TORCHVISION = {
    "vit_b_16": "timm/vit_base_patch16_224",
    "vit_b_32": "timm/vit_base_patch32_224",
    "vit_l_16": "timm/vit_large_patch16_224",
    "swin_t": "timm/swin_tiny_patch4_window7_224",
    "swin_s": "timm/swin_small_patch4_window7_224",
    "swin_b": "timm/swin_base_patch4_window7_224",
    "mobilenet_v2": "timm/mobilenetv2_100",
    "mobilenet_v3_large": "timm/mobilenetv3_large_100",
    "mobilenet_v3_small": "timm/mobilenetv3_small_100",
}


def spoken_model(said: str) -> str | None:
    """Return the full name of the one model that is meant; None where that is none or several.

    Spellings are compared ever more loosely, and the first that some model has decides.

    Examples
    --------
    >>> spoken_model("Llama-3.1-8B-Instruct"), spoken_model("llama3-8b")
    ('meta-llama/Llama-3.1-8B', 'meta-llama/Meta-Llama-3-8B')
    >>> spoken_model("ResNet50"), spoken_model("mobilenet_v2")
    ('timm/resnet50', 'timm/mobilenetv2_100')
    >>> spoken_model("mistral 7b") is None
    True
    """
    name = _bare_address(said)
    if known := hub_model(name):
        return known.name
    for key, by_key in zip(_keys(name), _by_keys(), strict=True):
        if meant := by_key.get(key):
            return next(iter(meant)) if len(meant) == 1 else None
    return None


def suggested_models(said: str, *, others: Iterable[str] = (), limit: int = 5) -> list[str]:
    """Return the names that a name without a model may have been meant for, likeliest first.

    Parameters
    ----------
    others : iterable of str
        Full names beside those of hubs and of timm.
    """
    folded = _fold(_TORCHVISION.sub("", _bare_address(said)).rpartition("/")[2])
    if not folded:
        return []
    keys = {name: _fold(name.rpartition("/")[2]) for name in (*_full_names(), *others)}
    begin = [name for name, key in keys.items() if key.startswith(folded)]
    shorter = [name for name, key in keys.items() if len(key) > 3 and folded.startswith(key)]
    alike = nearest_names(
        folded, [key for key in keys.values() if key[0] == folded[0]], limit=limit
    )
    near = [name for one in alike for name, key in keys.items() if key == one]
    hold = [name for name, key in keys.items() if len(folded) > 2 and folded in key]
    likely: dict[str, str] = {}
    for name in (*begin, *shorter, *near, *hold):
        likely.setdefault(_meaning(name), _OF_TORCHVISION.get(name, name))
    return list(likely.values())[:limit]


def _bare_address(said: str) -> str:
    return _ADDRESS.sub("", said.strip(), count=1).rstrip("/")


def _fold(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def _keys(name: str) -> tuple[str, ...]:
    """Return a name as it is compared: as written, in letters and digits, untuned, unreleased."""
    owner, slash, bare = name.casefold().rpartition("/")
    words = [word for word in re.split(r"[-_\s]+", bare) if word and word not in _TUNED]
    # "meta" of meta-llama/Meta-Llama-3-8B.
    if len(words) > 1 and words[0] == re.split(r"[-_\s]+", owner)[0]:
        words = words[1:]
    untuned = _fold("".join(words))
    plain = _fold("".join(word for word in words if not _RELEASE.fullmatch(word)))
    unreleased = plain if re.search(r"\d", plain) else untuned
    return tuple(f"{owner}{slash}{key}" for key in (bare, _fold(bare), untuned, unreleased))


@cache
def _by_keys() -> tuple[dict[str, set[str]], ...]:
    """Return the models by each key of each of their names, with the owner and without."""
    tables: tuple[dict[str, set[str]], ...] = ({}, {}, {}, {})
    for written in _full_names():
        is_of_hub = hub_model(written) is not None
        for table, key in zip(tables, _keys(written), strict=True):
            bare = key.rpartition("/")[2]
            for one in {key, bare} if is_of_hub else {bare}:
                table.setdefault(one, set()).add(_meaning(written))
    return tables


def _meaning(written: str) -> str:
    """Return the full name of the model that one of the full names stands for."""
    known = hub_model(written)
    return known.name if known else _OF_TORCHVISION.get(written, written)


@cache
def _full_names() -> tuple[str, ...]:
    listed = resources.files(__package__) / "timm_names.txt"
    timm = (f"timm/{name}" for name in listed.read_text(encoding="ascii").split())
    return (*hub_names(), *timm, *_OF_TORCHVISION)
