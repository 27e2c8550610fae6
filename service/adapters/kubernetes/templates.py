"""Find the pods that an object will make: a Pod itself, or the templates inside anything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: Custom resources nest their templates a few levels deep; deeper than this is no template.
_DEEPEST = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A pod, or the template of pods.

    Parameters
    ----------
    pointer : str
        JSON pointer to it in the object; ``""`` for the object itself.
    pod : mapping
        With ``metadata`` and ``spec``.
    """

    pointer: str
    pod: Mapping[str, Any]


def pod_templates(item: Mapping[str, Any]) -> list[Template]:
    """Return every pod template of an object, whatever its kind.

    A template is recognised by what it holds: a member named ``template`` with containers. So Jobs,
    Deployments, and the custom resources of Kubeflow, Ray and Volcano need no table of kinds.

    Examples
    --------
    >>> template = {"spec": {"containers": []}}
    >>> workers = {"template": template}
    >>> item = {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {"Worker": workers}}}
    >>> [found.pointer for found in pod_templates(item)]
    ['/spec/pytorchReplicaSpecs/Worker/template']
    """
    if _is_pod(item):
        return [Template(pointer="", pod=item)]
    return list(_inside(item.get("spec"), "/spec", 0))


def _inside(value: Any, pointer: str, depth: int) -> Iterator[Template]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _inside(item, f"{pointer}/{position}", depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            at = f"{pointer}/{escaped(name)}"
            if name == "template" and _is_pod(item):
                yield Template(pointer=at, pod=item)
            else:
                yield from _inside(item, at, depth + 1)


def _is_pod(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def escaped(name: str) -> str:
    """Return a member's name as a part of a JSON pointer (RFC 6901).

    Examples
    --------
    >>> escaped("perfmodel/job")
    'perfmodel~1job'
    """
    return name.replace("~", "~0").replace("/", "~1")
