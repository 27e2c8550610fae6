"""What users of Kubernetes and Slurm copy from their own files, as placements.

::

    nvidia.com/gpu: 8, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
    --nodes=2 --gres=gpu:a100:8
"""

from __future__ import annotations

import re

from perfmodel.errors import InvalidPlacementError

#: A resource of Kubernetes, and the labels that say which product it is.
_LABELS = {
    "nvidia.com": ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"),
    "amd.com": ("amd.com/gpu.product-name", "amd.com/gpu.product"),
    "google.com": ("cloud.google.com/gke-tpu-accelerator",),
}
_PAIR = re.compile(r"[\"']?([a-z][a-z.-]*\.com/[\w.-]+)[\"']?\s*[:=]\s*[\"']?([\w.+-]+)[\"']?")
_RESOURCE = re.compile(r"(nvidia\.com|amd\.com|google\.com)/(gpu|tpu|mig-[\w.]+)")
#: Of the whole job with ``--gpus``, else of each host.
_GRES = re.compile(
    r"(?:--?)?(?:gres(?:-flags)?[=:/]|gpus-per-node[=:]|(?P<total>gpus[=:]))?(?:gres/)?(?:gpu:)?"
    r"(?!gpus?(?:-per-node)?[:=])(?P<name>[A-Za-z][\w.-]*)[:=](?P<count>\d+)(?:\([^)]*\))?"
)
_UNTYPED = re.compile(r"(?:--?)?(?:gres[=:/])?(?:gres/)?gpu[:=]\d+|--gpus(?:-per-node)?[= ]\d+")
_NODES = re.compile(r"(?:^|\s)(?:--nodes[= ]|-N\s*)(\d+)(?=\s|$)")
#: Longer texts are none of these.
_MOST = 2_000
_MARK = re.compile(r"gres[=:/]|--gpus|gpu:[A-Za-z][\w.-]*[:=]\d|\.com/(gpu|tpu|mig-)")


def cluster_form(text: str, pointer: str = "/placement") -> str | None:
    """Return the placement that words of a cluster mean, in the short form; None for other texts.

    Raises
    ------
    InvalidPlacementError
        A number of accelerators that does not say which they are.

    Examples
    --------
    >>> cluster_form("nvidia.com/gpu: 8, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB")
    '8xNVIDIA-A100-SXM4-80GB'
    >>> cluster_form("--nodes=2 --gres=gpu:a100:8"), cluster_form("gpu:a100:4(S:0-1)")
    ('2x(8xa100)', '4xa100')
    >>> cluster_form("--nodes=2 --gpus=a100:8"), cluster_form("-N 2 --gpus-per-node=a100:8")
    ('2x(4xa100)', '2x(8xa100)')
    >>> cluster_form("8xA100") is None
    True
    """
    if len(text) > _MOST or not _MARK.search(text):
        return None
    pairs = dict(_PAIR.findall(text))
    if alone := _RESOURCE.fullmatch(text.strip()):
        pairs = {alone[0]: "1"}
    resource = next((key for key in pairs if _RESOURCE.fullmatch(key)), None)
    if resource is None and pairs:
        raise InvalidPlacementError(
            f"{next(iter(pairs))!r} says which, not how many. Add the resource, as in "
            "'nvidia.com/gpu: 8, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB'.",
            pointer=pointer,
        )
    return _slurm(text, pointer) if resource is None else _kubernetes(pairs, resource, pointer)


def _kubernetes(pairs: dict[str, str], resource: str, pointer: str) -> str:
    vendor, _, unit = resource.partition("/")
    product = next((pairs[label] for label in _LABELS[vendor] if label in pairs), None)
    if product is None:
        label = _LABELS[vendor][0]
        raise InvalidPlacementError(
            f"{resource!r} says how many, not which. Add the label of the node, as in "
            f"'{resource}: {pairs[resource]}, {label}: NVIDIA-A100-SXM4-80GB'.",
            pointer=pointer,
        )
    count = pairs[resource]
    if not count.isdigit():
        raise InvalidPlacementError(
            f"{resource} must be a whole number; got {count!r}.", pointer=pointer
        )
    part = f"/{unit.removeprefix('mig-')}" if unit.startswith("mig-") else ""
    return f"{count}x{product}{part}"


def _slurm(text: str, pointer: str) -> str | None:
    nodes = _NODES.search(text)
    rest = _NODES.sub(" ", text).strip()
    found = _GRES.fullmatch(rest)
    if found is None:
        if _UNTYPED.fullmatch(rest):
            raise InvalidPlacementError(
                f"{rest!r} says how many, not which. Add the type, as in '--gres=gpu:a100:8'.",
                pointer=pointer,
            )
        return None
    hosts, count = int(nodes[1]) if nodes else 1, int(found["count"])
    if found["total"] and hosts > 1:
        if count % hosts:
            raise InvalidPlacementError(
                f"{rest!r} is of the whole job, and cannot be dealt out evenly to {hosts} hosts. "
                "Write them one by one, as in '(4+3)xA100', or --gpus-per-node.",
                pointer=pointer,
            )
        count //= hosts
    host = f"{count}x{found['name']}"
    return f"{hosts}x({host})" if hosts > 1 else host
