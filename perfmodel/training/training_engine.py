"""Where captures and fits of a training run, by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.ray_tasks import opened_ray
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import InvalidInputError
from perfmodel.training.provenance import code_facts, library_versions

ENGINES = ("local", "ray")


@contextlib.contextmanager
def opened_engine(
    name: str, *, workers: int = 1, address: str | None = None
) -> Iterator[TaskEngine]:
    """Open an engine for as long as a training uses it.

    Parameters
    ----------
    name : str
        One of :data:`ENGINES`.
    workers : int
        Processes of ``"local"``; a cluster has as many as it has processors.
    address : str or None
        Of the cluster of ``"ray"``; None: the one of the environment, or else one of this machine.

    Raises
    ------
    InvalidInputError
        Another name.
    MissingExtraError
        Ray is not installed.
    TrainingError
        No cluster answers.
    """
    if name not in ENGINES:
        raise InvalidInputError(
            f"Unknown engine {name!r}. Use one of {', '.join(ENGINES)}.", allowed=ENGINES
        )
    if name == "local":
        yield LocalEngine(workers=workers)
        return
    with opened_ray(address, made_with) as engine:
        yield engine


def made_with() -> dict[str, str]:
    """Return what the bytes of a model depend on besides data, settings and the kind of machine."""
    code = code_facts()
    return {**library_versions(), "perfmodel": code["version"], "its source": code["source_digest"]}
