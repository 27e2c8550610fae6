"""Read and write placements: the short form of people and the long form of programs.

``"8xA100-SXM4-80GB"`` is one host with eight, ``"2x(8xH100-SXM5-80GB)@ib-400g"`` two such hosts,
``"8xA100+4xV100"`` two unlike hosts; :mod:`.short_form` has the grammar. The
long form is the JSON object of the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.topology.long_form import placement_to_dict, read_long_form
from perfmodel.placement.topology.networks import NETWORKS
from perfmodel.placement.topology.placement_checks import MAX_ACCELERATORS
from perfmodel.placement.topology.short_form import HOW, read_short_form, write_short_form
from perfmodel.placement.topology.topology import REPLICAS, Node, Placement

__all__ = ["format_placement", "parse_placement", "placement_to_dict"]

#: Longest text that is read as a placement; thousands of unlike hosts fit.
MAX_TEXT = 100_000

#: What schedulers mostly write: hosts in data parallel, joined by '+'. The grammar says no more of
#: them.
_HOST = r"(?:([1-9]\d{0,5})x)?([A-Za-z][\w.-]*)"
_ONE_HOST = re.compile(f"(){_HOST}", re.ASCII)
_HOSTS = re.compile(rf"([1-9]\d{{0,5}})x\({_HOST}\)", re.ASCII)
#: A name that may be more than one: a count stands last, or it is one of a host.
_MAY_BE_MORE = re.compile(
    r"x\d{1,4}$|xlarge$|metal$|-\w*gpu-|-hightpu-|-standard-|^n[cdv]\d|^standard|^gpu_|^[dh]gx"
    r"|^[bv]m\.gpu|nvl\d|v\d[a-z]*-\d+$",
    re.I,
)
#: Longer texts are left to the grammar, which counts their hosts.
_AT_A_GLANCE = 2_000


def parse_placement(value: str | Mapping[str, Any], *, pointer: str = "/placement") -> Placement:
    """Read a placement in either form.

    Parameters
    ----------
    value : str or mapping
        Short form, or the long form as decoded from JSON.
    pointer : str
        JSON pointer to the placement in the request; errors point below it, or to the text.

    Returns
    -------
    Placement
        Equal for equal content, whichever form it came in. Accelerator names are kept as
        written; the catalogue resolves them.

    Raises
    ------
    InvalidPlacementError
        Nonsense, with the reason.

    Examples
    --------
    >>> parse_placement("2x(8xH100-SXM5-80GB)@ib-400g").accelerator_count
    16
    >>> parse_placement({"nodes": [{"accelerator": "A100"}]}) == parse_placement("A100")
    True
    >>> parse_placement("2x(8xA100) tp=8").plan.tensor
    8
    """
    if isinstance(value, str):
        return _plain(value) or _parse_short(value, pointer)
    if isinstance(value, Mapping):
        return read_long_form(value, pointer)
    raise InvalidPlacementError(
        f"A placement is a text or an object, got {type(value).__name__}. {HOW}", pointer=pointer
    )


def _plain(text: str) -> Placement | None:
    """Read the commonest texts at a glance; None for all others, wrong ones among them."""
    if len(text) > _AT_A_GLANCE:
        return None
    hosts, at, name = text.partition("@")
    network = NETWORKS.get(name)
    if at and network is None:
        return None
    nodes, accelerators = [], 0
    for part in hosts.split("+"):
        found = _ONE_HOST.fullmatch(part) or _HOSTS.fullmatch(part)
        if found is None or _MAY_BE_MORE.search(found[3]):
            return None
        repeat, count = int(found[1] or 1), int(found[2] or 1)
        accelerators += repeat * count
        nodes.append(Node(accelerator=found[3], count=count, repeat=repeat))
    if accelerators > MAX_ACCELERATORS:
        return None
    return Placement(nodes=tuple(nodes), network=network, plan=REPLICAS)


def _parse_short(text: str, pointer: str) -> Placement:
    if len(text) > MAX_TEXT:
        raise InvalidPlacementError(
            f"The text of a placement has at most {MAX_TEXT} characters; got {len(text)}. Write "
            "equal hosts as '64x(8xA100)'.",
            pointer=pointer,
        )
    try:
        return read_long_form(read_short_form(text, pointer), pointer)
    except InvalidPlacementError as error:
        error.pointer = pointer  # a text has no parts in JSON
        raise


def format_placement(placement: Placement) -> str | dict[str, Any]:
    """Write a placement: short where the short form can say it, else long.

    Returns
    -------
    str or dict
        What :func:`parse_placement` reads back as an equal placement.

    Examples
    --------
    >>> format_placement(parse_placement("2 x (8xH100-SXM5-80GB) @ IB-400G"))
    '2x(8xH100-SXM5-80GB)@ib-400g'
    >>> format_placement(parse_placement("(1+1+4) x T4[pcie3]@eth-10g/2 PP=3"))
    '(1+1+4)xT4[pcie3]@eth-10g/2 pp=3'
    """
    short = write_short_form(placement)
    try:
        same = parse_placement(short) == replace(placement, read_as=())
    except InvalidPlacementError:
        same = False
    return short if same else placement_to_dict(placement)
