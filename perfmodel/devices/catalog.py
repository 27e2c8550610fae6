"""The catalogue: every accelerator that perfmodel knows by name."""

from __future__ import annotations

import contextlib
import functools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, NoReturn, Protocol

from perfmodel.devices.aliases import AliasIndex, mig_profile, read_aliases, strip_decorations
from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.processors.families import read_processors
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, TakenNameError, UnknownAcceleratorError

#: The files of the shipped catalogue: devices, families of CPUs, names.
SHIPPED = ("catalog.toml", "processors/families.toml", "aliases.toml")

#: What a user may call the machine that perfmodel runs on.
LOCAL_NAMES = ("local", "cpu")


#: Words that say what kind of accelerator is meant, not which.
_KINDS = frozenset({"gpu", "tpu", "npu", "cuda", "rocm", "mp", "xpu", "accelerator"})
_KIND_HINT = (
    "That says what kind it is, not which. `perfmodel doctor` names what this machine has, "
    "`perfmodel devices` lists every name."
)


class LocalSource(Protocol):
    """Describes the CPU of this machine when somebody asks for it."""

    @property
    def name(self) -> str:
        """Canonical name; cheap, measures nothing."""

    def describe(self) -> AcceleratorSpec:
        """Measured facts; may take seconds the first time."""


class Catalog:
    """Accelerators by name and alias; immutable.

    Parameters
    ----------
    aliases : mapping of str to str
        Written name to canonical name.
    local : LocalSource or None
        Answers ``"local"``, ``"cpu"`` and the local machine's own name, on demand. None: they are
        unknown names.

    Examples
    --------
    >>> Catalog.default().get("NVIDIA-A100-SXM4-80GB").name
    'A100-SXM4-80GB'
    >>> Catalog.default().get("gpu:h100").peak_flops["bf16"]
    989000000000000.0
    """

    def __init__(
        self,
        devices: Mapping[str, AcceleratorSpec],
        aliases: Mapping[str, str],
        *,
        local: LocalSource | None = None,
    ) -> None:
        self._devices = dict(devices)
        self._aliases = dict(aliases)
        self._index = AliasIndex(self._devices, self._aliases)
        self._local = local
        #: Without what an operator added; itself where nothing was.
        self._shipped = self

    @classmethod
    def default(cls) -> Catalog:
        """Return the shipped catalogue with the local CPU; read once per process."""
        return _default_catalog()

    @classmethod
    def from_toml(
        cls, devices: str, processors: str, aliases: str, *, local: LocalSource | None = None
    ) -> Catalog:
        """Read a catalogue from the text of its files: devices, families of CPUs, names."""
        cpus = read_processors(processors)
        names = {**cpus.aliases, **read_aliases(aliases)}
        return cls({**read_devices(devices), **cpus.specs}, names, local=local)

    def get(self, name: str) -> AcceleratorSpec:
        """Return the accelerator of a name, in any spelling that users know it by.

        Raises
        ------
        UnknownAcceleratorError
            With the nearest names; or because the name means a MIG slice.
        """
        if name in self._devices:
            return self._devices[name]
        if self._local is not None and self._means_local(name):
            return self._local.describe()
        known = self._known(name)
        return self._refuse(name) if known is None else self._devices[known]

    def whole_and_profile(self, name: str) -> tuple[AcceleratorSpec, str]:
        """Return the accelerator of a name that may end in a MIG profile, and that profile.

        Parameters
        ----------
        name : str
            ``"A100-SXM4-40GB"``, ``"A100-SXM4-40GB/1g.5gb"``, or a product label such as
            ``"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"``.

        Returns
        -------
        tuple of (AcceleratorSpec, str)
            The whole, and the profile of the slice that is meant; empty where it is the whole.

        Raises
        ------
        UnknownAcceleratorError
            No such accelerator, or a MIG slice without its profile or its card.

        Examples
        --------
        >>> whole, profile = Catalog.default().whole_and_profile("A100-SXM4-40GB/1g.5gb")
        >>> whole.name, profile
        ('A100-SXM4-40GB', '1g.5gb')
        """
        sliced = mig_profile(name)
        if sliced is None:
            return self.get(name), ""
        whole, profile = sliced
        if not profile or not whole.strip("-_/: "):
            raise UnknownAcceleratorError(
                name,
                hint="A MIG slice needs its card and its profile, as in 'A100-SXM4-40GB/1g.5gb'.",
            )
        return self.get(whole), profile

    def canonical_name(self, name: str) -> str:
        """Return the canonical name; as :meth:`get`, but never measures the local machine."""
        if name not in self._devices and self._local is not None and self._means_local(name):
            return self._local.name
        return self.get(name).name

    def other_meanings(self, name: str) -> tuple[str, ...]:
        """Return what else a name might mean: accelerators that have all of its words in theirs.

        Nothing for a canonical name, an unknown one, and one that a maker or a cluster gives to one
        accelerator alone.

        Examples
        --------
        >>> Catalog.default().other_meanings("P100")
        ('P100-SXM2-16GB',)
        >>> Catalog.default().other_meanings("P100-PCIe-16GB")
        ()
        """
        if name in self._devices or self._means_local(name) or mig_profile(name):
            return ()
        return self._index.other_meanings(name)

    def names(self) -> tuple[str, ...]:
        """Return the canonical names in the catalogue's order; the local machine is not one."""
        return tuple(self._devices)

    def aliases(self) -> Mapping[str, str]:
        """Return the aliases: written name to canonical name."""
        return dict(self._aliases)

    def with_device(self, spec: AcceleratorSpec) -> Catalog:
        """Return a catalogue that also holds a device, or holds it in place of its namesake.

        Raises
        ------
        InvalidInputError
            If its name is an alias of another device.
        """
        if self._shipped is not self:
            return self._shipped.with_device(spec).with_own_if_free(*self.own())
        return Catalog({**self._devices, spec.name: spec}, self._aliases, local=self._local)

    def with_local(self, local: LocalSource | None) -> Catalog:
        """Return a catalogue that asks another source for the local machine, or none."""
        if self._shipped is not self:
            return self._shipped.with_local(local).with_own_if_free(*self.own())
        return Catalog(self._devices, self._aliases, local=local)

    def with_own(self, devices: Iterable[AcceleratorSpec], aliases: Mapping[str, str]) -> Catalog:
        """Return a catalogue with an operator's own devices and aliases, in place of those before.

        Devices that stay the same stay the same objects.

        Parameters
        ----------
        aliases : mapping of str to str
            Written name to canonical name, of any device.

        Raises
        ------
        InvalidInputError
            A name that means something else already, or an alias of no device.
        """
        shipped = self.shipped
        own = {spec.name: self._kept(spec) for spec in devices}
        if (tuple(own.values()), aliases) == self.own():
            return self
        for name in (*own, *aliases):
            _check_new(name, shipped)
        extended = Catalog(
            {**shipped._devices, **own}, {**shipped._aliases, **aliases}, local=self._local
        )
        extended._shipped = shipped
        return extended

    def with_own_if_free(
        self, devices: Iterable[AcceleratorSpec], aliases: Mapping[str, str]
    ) -> Catalog:
        """Return a catalogue with those of an operator's devices and aliases whose names are free.

        A newer catalogue may have come to know a name that an operator took; the shipped one then
        stands. Parameters as for :meth:`with_own`.
        """
        specs = list(devices)
        with contextlib.suppress(InvalidInputError):
            return self.with_own(specs, aliases)
        # One by one, to find those that are taken.
        found = self.shipped
        for spec in specs:
            with contextlib.suppress(InvalidInputError):
                found = found.with_own([*found.own()[0], spec], {})
        for alias, name in aliases.items():
            with contextlib.suppress(InvalidInputError):
                own, names = found.own()
                found = found.with_own(own, {**names, alias: name})
        return found

    @property
    def shipped(self) -> Catalog:
        """The catalogue without what an operator added."""
        return self._shipped

    def own(self) -> tuple[tuple[AcceleratorSpec, ...], Mapping[str, str]]:
        """Return the devices and the aliases that an operator added."""
        shipped = self._shipped
        return (
            tuple(spec for name, spec in self._devices.items() if name not in shipped._devices),
            {a: name for a, name in self._aliases.items() if a not in shipped._aliases},
        )

    def _kept(self, spec: AcceleratorSpec) -> AcceleratorSpec:
        known = self._devices.get(spec.name)
        return known if known == spec else spec

    def __iter__(self) -> Iterator[AcceleratorSpec]:
        return iter(self._devices.values())

    def __len__(self) -> int:
        return len(self._devices)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._means_local(name) or self._known(name) is not None)

    def _known(self, name: str) -> str | None:
        return None if mig_profile(name) else self._index.resolve(name)

    def _means_local(self, name: str) -> bool:
        if self._local is None:
            return False
        return name.casefold() in (*LOCAL_NAMES, self._local.name.casefold())

    def _refuse(self, name: str) -> NoReturn:
        mig = mig_profile(name)
        if mig is not None:
            whole = self._index.resolve(mig[0])
            raise UnknownAcceleratorError(name, hint=_mig_hint(mig[1], whole))
        if name.casefold().rstrip("s") in _KINDS:
            raise UnknownAcceleratorError(name, hint=_KIND_HINT)
        raise UnknownAcceleratorError(
            name,
            like=strip_decorations(name),
            known=(*self._index.written, *(LOCAL_NAMES if self._local else ())),
            hint="`perfmodel devices` lists every name.",
        )


def _check_new(name: str, shipped: Catalog) -> None:
    """Refuse a name that a catalogue knows already, in whatever spelling."""
    if mig_profile(name) is not None:
        raise InvalidInputError(
            f"{name!r} reads as a MIG slice; a whole accelerator needs another name."
        )
    if name in shipped:
        meant = shipped.canonical_name(name)
        raise TakenNameError(
            f"The name {name!r} means {meant!r} in the catalogue that is shipped, which stays as "
            "it is. Take another name.",
        )


def _mig_hint(profile: str, whole: str | None) -> str:
    part = f"the MIG slice {profile}" if profile else "a MIG slice"
    of = f" of {whole!r}" if whole else ""
    named = repr(whole) if whole else "the whole accelerator"
    written = f"{whole or 'A100-SXM4-40GB'}/{profile or '1g.5gb'}"
    return (
        f"It names {part}{of}, and the catalogue holds whole accelerators only. "
        f"Name {named} here; a placement may name a slice, as in {written!r}."
    )


def read_devices(text: str) -> dict[str, AcceleratorSpec]:
    """Read the device tables of a catalogue file.

    Parameters
    ----------
    text : str
        TOML: ``[sources]`` names the sources once; each ``[devices."NAME"]`` holds the fields of
        :class:`AcceleratorSpec` but its name, with sources cited as ``"a"`` or ``"a+b"``.

    Raises
    ------
    InvalidInputError
        For a field or number that makes no sense, with its JSON pointer.
    """
    read = tomllib.loads(text)
    words: Mapping[str, str] = read.get("sources", {})
    devices = {}
    for name, table in read["devices"].items():
        plain: dict[str, Any] = {"name": name, **table}
        plain["sources"] = {
            key: "; ".join(words.get(word, word) for word in source.split("+"))
            for key, source in plain.get("sources", {}).items()
        }
        devices[name] = spec_from_dict(plain, pointer=f"/devices/{name}")
    return devices


@functools.cache
def _default_catalog() -> Catalog:
    # Imported here: the local description is not needed to read the catalogue.
    from perfmodel.devices.local_cpu import LocalCpu

    folder = resources.files("perfmodel.devices")
    texts = ((folder / name).read_text(encoding="utf-8") for name in SHIPPED)
    return Catalog.from_toml(*texts, local=LocalCpu())
