"""A placement whose accelerators, links and parts of accelerators have been looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, InvalidPlacementError
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.sharing.mig import (
    AcceleratorPart,
    core_part,
    mig_part,
    part_accelerator,
    share_part,
)
from perfmodel.placement.topology.topology import BatchSplit, Node, Placement
from perfmodel.types import Basis, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Equal accelerators of a placement.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        The whole one.
    held : AcceleratorSpec
        What the job holds of one of them, as an accelerator of its own.
    part : AcceleratorPart or None
        What that is of the whole one; None means all.
    """

    accelerator: AcceleratorSpec
    count: int
    held: AcceleratorSpec
    part: AcceleratorPart | None

    @property
    def whole_accelerators(self) -> float:
        """How many whole accelerators the parts of a kind are, by their cores."""
        return self.count * (self.part.sm_share if self.part else 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedPlacement:
    """A placement with everything that was looked up for it.

    Parameters
    ----------
    kinds : tuple of Kind
        Each kind of accelerator once, in the order of the placement.
    named : Placement
        The placement with the catalogue's own names: however it was written, it is the same.
    read_as : tuple of str
        How names that may mean several things were read.
    idle : tuple of str
        What it states that limits nothing; where that is so on all kinds, it is as if not stated.
    """

    placement: Placement
    named: Placement
    fabric: Fabric
    kinds: tuple[Kind, ...]
    read_as: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    #: The whole accelerator of each kind.
    accelerators: tuple[AcceleratorSpec, ...] = field(init=False)
    #: Accelerators of each kind, and in all.
    counts: tuple[int, ...] = field(init=False)
    count: int = field(init=False)
    #: The best that an answer for several accelerators can rest on: inside of a host the links of
    #: measured machines were fitted; between hosts few were.
    scaling_basis: Basis = field(init=False)
    #: Whether one replica is spread over several accelerators.
    is_split: bool = field(init=False)
    #: Whether it says what feeds its accelerators.
    states_feeding: bool = field(init=False)
    #: Whether they are parts, under a power limit or shared with other jobs.
    is_slowed: bool = field(init=False)
    #: Whether nothing but data parallel, of replicas with equal batches, has to be answered.
    is_replicated: bool = field(init=False)
    #: Whether it is that, of whole accelerators that nothing slows down.
    is_plain: bool = field(init=False)
    #: Equal for placements on the same accelerators, or parts of them.
    machine: str = field(init=False)
    #: How its names were read, what was assumed of its links, and what limits nothing.
    warnings: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # At once, since every answer asks for them: a cached property costs more than all of them.
        plan, counts = self.fabric.plan, tuple([kind.count for kind in self.kinds])
        split = plan.tensor > 1 or plan.pipeline > 1 or plan.context > 1 or plan.expert > 1
        asked, dealt = self.placement, plan.batch_split is not BatchSplit.EQUAL
        feeding = (asked.cpu_cores, asked.storage_bytes_per_s, asked.storage_locality)
        fed = feeding != (None, None, None)
        slowed = (
            bool(asked.shared_with)
            or asked.power_limit_w is not None
            or any([kind.part is not None for kind in self.kinds])
        )
        replicated = not (
            split or fed or plan.replicate > 1 or plan.offload or (dealt and len(counts) > 1)
        )
        accelerators = tuple([kind.accelerator for kind in self.kinds])
        said = [*self.read_as, *self.fabric.warnings, *self.idle]
        makers = dict.fromkeys([one.vendor for one in accelerators])
        if len(makers) > 1:
            said.append(SEVERAL_MAKERS_WARNING.format(" and ".join(makers)))
        vars(self).update(
            accelerators=accelerators,
            counts=counts,
            count=sum(counts),
            scaling_basis=Basis.INTERPOLATED
            if self.placement.host_count == 1
            else Basis.EXTRAPOLATED,
            is_split=split,
            states_feeding=fed,
            is_slowed=slowed,
            is_replicated=replicated,
            is_plain=replicated and not slowed,
            machine="+".join([kind.accelerator.name for kind in self.kinds]),
            warnings=tuple(said),
        )

    @property
    def power_w(self) -> float | None:
        """What the accelerators may draw together, W; None where the catalogue does not know it.

        A part draws its share of the cores, a limit holds for each board; hosts are left out.
        """
        limit_w = self.placement.power_limit_w
        watts = 0.0
        for kind in self.kinds:
            if kind.accelerator.tdp_w is None:
                return None
            watts += kind.whole_accelerators * min(kind.accelerator.tdp_w, limit_w or float("inf"))
        return watts

    @property
    def usual_precision(self) -> Precision:
        """What people train with on all of its accelerators; fp32 where they differ in that."""
        usual = {one.usual_precision for one in self.accelerators}
        return usual.pop() if len(usual) == 1 else Precision.FP32

    @property
    def fullest_host(self) -> int:
        """Accelerators of the host that has most of them."""
        return max(hosts.count for hosts in self.fabric.hosts)


def resolve_placement(placement: Placement, catalog: Catalog) -> ResolvedPlacement:
    """Look up the accelerators, parts and links of a placement; errors point into ``/placement``.

    Raises
    ------
    UnknownAcceleratorError
        A name that the catalogue does not hold.
    InvalidPlacementError
        A link or a MIG profile that an accelerator has not, or a plan that does not fit.
    """
    share = None
    if placement.fraction == 1.0:
        placement = replace(placement, fraction=None)
    if placement.fraction is not None:
        share = share_part(placement.fraction, pointer="/placement/fraction")
    kinds: dict[tuple[str, str], Kind] = {}
    nodes, named = [], []
    for position, node in enumerate(placement.nodes):
        kind, mig = _look_up(placement, position, catalog, share)
        whole = kind.accelerator.name
        key = (whole, kind.part.name if kind.part else "")
        if key in kinds:
            kind = replace(kind, count=kind.count + kinds[key].count)
        kinds[key] = kind
        named.append(_named(node, f"{whole}/{mig}" if mig else whole))
        nodes.append(_named(replace(node, link="none") if mig else node, whole))
    placement, idle = _limited(placement, [kind.accelerator for kind in kinds.values()])
    wholes, read_as = _with_nodes(placement, nodes), placement.read_as
    if wholes is not placement:
        written = dict.fromkeys(node.accelerator for node in placement.nodes)
        read_as = (*read_as, *[text for name in written if (text := _guess(name, catalog))])
    fabric = Fabric.of(wholes, catalog)
    plain = replace(placement, read_as=()) if placement.read_as else placement
    return ResolvedPlacement(
        placement=placement,
        named=_with_nodes(plain, _joined(named)),
        fabric=fabric,
        kinds=tuple(kinds.values()),
        read_as=read_as,
        idle=idle,
    )


def _limited(
    placement: Placement, accelerators: Sequence[AcceleratorSpec]
) -> tuple[Placement, tuple[str, ...]]:
    """Return a placement without a power limit that limits nothing, and what is said of that."""
    limit_w = placement.power_limit_w
    if limit_w is None:
        return placement, ()
    idle = [one for one in accelerators if one.tdp_w is not None and limit_w >= one.tdp_w]
    if len(idle) == len(accelerators):
        placement = replace(placement, power_limit_w=None)
    return placement, tuple(
        f"A power limit of {limit_w:g} W limits nothing: {one.name} takes {one.tdp_w:g} W at most."
        for one in idle
        # At the board's own it says what is usual.
        if one.tdp_w != limit_w
    )


def _look_up(
    placement: Placement,
    position: int,
    catalog: Catalog,
    share: AcceleratorPart | None,
) -> tuple[Kind, str]:
    """Return what a job holds of an entry of a placement, and the name of its MIG profile."""
    node, here = placement.nodes[position], f"/placement/nodes/{position}"
    try:
        whole, profile = catalog.whole_and_profile(node.accelerator)
        part = mig_part(whole, profile) if profile else None
    except InvalidInputError as error:
        error.pointer = f"{here}/accelerator"
        raise
    if part is not None:
        if share is not None:
            raise InvalidPlacementError(
                "A MIG slice has its share already; leave fraction out, or name the whole card.",
                pointer="/placement/fraction",
            )
        _refuse_link(node, f"{here}/link")
    given = part or share
    if given is None and placement.cpu_cores is not None and whole.kind == "cpu":
        # The cores that a host has for the job, where those are not all.
        given = core_part(whole, placement.cpu_cores / node.count)
    held = whole if given is None else part_accelerator(whole, given)
    kind = Kind(accelerator=whole, count=node.count * node.repeat, held=held, part=given)
    return kind, "" if part is None else part.name


def _named(node: Node, name: str) -> Node:
    return node if node.accelerator == name else replace(node, accelerator=name)


def _joined(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with equal ones that follow each other as one entry."""
    alike = [list(some) for _, some in groupby(nodes, lambda node: replace(node, repeat=1))]
    return [
        some[0] if len(some) == 1 else replace(some[0], repeat=sum(node.repeat for node in some))
        for some in alike
    ]


def _with_nodes(placement: Placement, nodes: Sequence[Node]) -> Placement:
    """Return a placement with other nodes; itself where they are the same."""
    return placement if tuple(nodes) == placement.nodes else replace(placement, nodes=tuple(nodes))


def _guess(name: str, catalog: Catalog) -> str:
    """Return what is said of a name that several accelerators have in common; empty for others."""
    others = catalog.other_meanings(name)
    if not others:
        return ""
    listed = " or ".join(others) if len(others) < 3 else f"{', '.join(others[:-1])} or {others[-1]}"
    return f"{name!r} is read as {catalog.canonical_name(name)}; say {listed} where it is that."


def _refuse_link(node: Node, pointer: str) -> None:
    """Refuse a link between MIG slices, which have no access to each other."""
    if node.link not in (None, "none"):
        raise InvalidPlacementError(
            f"MIG slices reach each other through the memory of the host alone, not by "
            f"{node.link}. Leave link out, or name the whole card.",
            pointer=pointer,
            allowed=("none",),
        )


#: Said where accelerators of several makers belong to one job.
SEVERAL_MAKERS_WARNING = (
    "Accelerators of {0} in one job: no maker's library of collectives spans them, so that what "
    "they exchange in training goes slower than is answered."
)
