"""How a name as users write it becomes the canonical name of an accelerator.

Three steps, first hit wins:

1. the name as written, without case and separators, is a canonical name or an alias;
2. the same after vendor words and decorations are dropped
   (``"NVIDIA-GeForce-RTX-3090-SHARED"`` -> ``"rtx3090"``) and the memory size is put last
   (``"A100 40GB PCIe"`` -> ``"a100pcie40gb"``), and the ``s`` of several (``"8 A100s"``);
3. nothing: the name is unknown.

A MIG slice is never the whole accelerator that its name begins with: :func:`mig_profile` finds it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from perfmodel.errors import InvalidInputError

#: Words that say who made a device or how it is offered, but not which device it is. "Quadro" is
#: not among them: it tells "Quadro RTX 6000" from "RTX 6000 Ada".
_DECORATIONS = frozenset(
    {"nvidia", "nvidiacom", "geforce", "tesla", "amd", "amdcom", "instinct", "radeon", "intel"}
    | {"google", "huawei", "aws", "habana", "gpu", "gres", "shared", "generation", "graphics"}
    | {"accelerator", "corporation", "cpu", "processor"}
)
_TRADEMARK = re.compile(r"\((?:r|tm|c)\)|[®™]", re.IGNORECASE)
_OF_PROCESSOR = re.compile(
    r"\b\d+-cores?\b|@\s*[\d.]+\s*ghz|\b\d+th gen\b|\b(?:w/|with)\s*radeon.*", re.IGNORECASE
)
_POWER_LIMIT = re.compile(r"\(\s*\d+\s*w\s*\)", re.IGNORECASE)
_MEMORY_SIZE = re.compile(r"\d+gb", re.IGNORECASE)
_SHORT_SIZE = re.compile(r"\d{1,3}g", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_\-/:,()]+")
_WORDS = re.compile(r"[\s_\-/]+")
_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]")
_MIG = re.compile(
    r"(?:^|[^0-9a-z])(?:mig[-_ ]?)?(?P<profile>(?:\d+c\.)?\d+g\.\d+gb)"
    r"|(?:^|[^0-9a-z])mig(?:[^0-9a-z]|$)",
    re.IGNORECASE,
)


def fold(name: str) -> str:
    """Return a name without case and separators; ``+`` is spelt out, since it tells CPUs apart.

    Examples
    --------
    >>> fold("Xeon Platinum 8480+") == fold("xeon_platinum-8480 plus")
    True
    """
    return _NOT_ALPHANUMERIC.sub("", name.casefold().replace("+", "plus"))


def strip_decorations(name: str) -> str:
    """Return a name without the words that do not say which device it is, memory size last.

    Examples
    --------
    >>> strip_decorations("NVIDIA-GeForce-RTX-3090-SHARED")
    'RTX 3090'
    >>> strip_decorations("Intel(R) Core(TM) i9-10940X CPU @ 3.30GHz")
    'Core i9 10940X'
    >>> strip_decorations("AMD Ryzen 7 7840HS w/ Radeon 780M Graphics")
    'Ryzen 7 7840HS'
    >>> strip_decorations("NVIDIA A100 80GB PCIe (300W)")
    'A100 PCIe 80GB'
    """
    for decoration in (_TRADEMARK, _OF_PROCESSOR, _POWER_LIMIT):
        name = decoration.sub(" ", name)
    words = [word for word in _SEPARATORS.split(name) if word and fold(word) not in _DECORATIONS]
    words = [word + "B" if _SHORT_SIZE.fullmatch(word) else word for word in words]
    # Stable: only memory sizes move.
    words.sort(key=lambda word: _MEMORY_SIZE.fullmatch(word) is not None)
    return " ".join(words)


@lru_cache(maxsize=4_096)
def mig_profile(name: str) -> tuple[str, str] | None:
    """Find a MIG slice in a name.

    Parameters
    ----------
    name : str
        Product label, Slurm GRES type or resource name.

    Returns
    -------
    tuple of (str, str) or None
        What stands before the slice and the slice's profile (``""`` where the name states none),
        or None for a name without MIG.

    Examples
    --------
    >>> mig_profile("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED")
    ('NVIDIA-A100-SXM4-80GB', '1g.10gb')
    >>> mig_profile("NVIDIA-A100-SXM4-80GB") is None
    True
    """
    found = _MIG.search(name)
    if found is None:
        return None
    return name[: found.start()], (found.group("profile") or "").lower()


class AliasIndex:
    """Canonical names and aliases, looked up by how users write them.

    Parameters
    ----------
    aliases : mapping of str to str
        Written name to canonical name.

    Raises
    ------
    InvalidInputError
        If an alias points to no canonical name, or two names that fold alike to different ones.
    """

    def __init__(self, canonical: Iterable[str], aliases: Mapping[str, str]) -> None:
        self._by_folded: dict[str, str] = {}
        known = self._canonical = tuple(canonical)
        for name in known:
            self._add(name, name)
        for alias, target in aliases.items():
            if self._by_folded.get(fold(target)) != target or target not in known:
                raise InvalidInputError(
                    f"Alias {alias!r} points to {target!r}, which is no device."
                )
            self._add(alias, target)
        # A driver's name is known without the words that its maker puts around it, too.
        for alias, target in aliases.items():
            self._by_folded.setdefault(fold(strip_decorations(alias)), target)
        self.written = (*known, *aliases)

    def _add(self, written: str, target: str) -> None:
        folded = fold(written)
        if self._by_folded.setdefault(folded, target) != target:
            raise InvalidInputError(
                f"The name {written!r} means both {self._by_folded[folded]!r} and {target!r}."
            )

    def resolve(self, name: str) -> str | None:
        """Return the canonical name, or None if nothing matches.

        A MIG slice is not told apart here: ask :func:`mig_profile` first.
        """
        found = self._by_folded.get(fold(name))
        if found is None:
            bare = fold(strip_decorations(name))
            found = self._by_folded.get(bare) or self._by_folded.get(_singular(bare))
        return found

    def other_meanings(self, name: str) -> tuple[str, ...]:
        """Return the canonical names that a short name might mean besides the one that it does."""
        meant = self.resolve(name)
        words = [fold(word) for word in _WORDS.split(strip_decorations(name)) if word]
        if words and fold("".join(words)) not in self._by_folded:
            words[-1] = _singular(words[-1])
        if meant is None or not words or fold(meant) == fold(name):
            return ()
        return tuple(
            other
            for other in self._canonical
            if other != meant and self._has(other, words) and self._has(meant, words)
        )

    def _has(self, canonical: str, words: Iterable[str]) -> bool:
        own = [fold(word) for word in _WORDS.split(canonical)]
        return all(word in own for word in words)


def _singular(folded: str) -> str:
    return folded.removesuffix("s")


def read_aliases(text: str) -> dict[str, str]:
    """Read the alias file: tables of written name to canonical name, merged."""
    return {alias: name for table in tomllib.loads(text).values() for alias, name in table.items()}
