"""The workers of a campaign as a Slurm job array.

Each element of the array is a worker. Before its time is up Slurm sends it SIGTERM, upon which it
gives its task back; an element whose node fails is queued again, and what it ran comes back when
its lease has run out.

Reference: sbatch, https://slurm.schedmd.com/sbatch.html (``--array``, ``--signal``, ``--requeue``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers
from perfmodel.errors import InvalidInputError

#: Seconds before the end of its time at which a worker is told to stop.
_NOTICE_S = 60
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z-]*([= ][^\n]*)?")


def slurm_script(workers: ClusterWorkers, *, options: Sequence[str] = ()) -> str:
    """Return a script for ``sbatch``.

    The URL of the database is in it unless it has a password: then it has to be in the environment
    of ``sbatch``, which hands it on.

    Parameters
    ----------
    options : sequence of str
        Further options of sbatch, such as ``"--partition=a100"``.

    Raises
    ------
    InvalidInputError
        An option that is none.
    """
    for option in options:
        if not _OPTION.fullmatch(option):
            raise InvalidInputError(
                f"{option!r} is no option of sbatch; give them as --option=--partition=a100."
            )
    gpus = [f"--gres=gpu:{workers.gpus}"] if workers.gpus else []
    directives = [
        f"--job-name=perfmodel-{workers.campaign}",
        f"--array=0-{workers.workers - 1}",
        "--ntasks=1",
        "--requeue",
        f"--signal=B:TERM@{_NOTICE_S}",
        f"--output=perfmodel-{workers.campaign}-%a.log",
        *gpus,
        *options,
    ]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {directive}" for directive in directives),
        "",
        _database_line(workers.database),
        f"exec {shlex.join(workers.command)}",
    ]
    return "\n".join(lines) + "\n"


def has_password(database: str) -> bool:
    """Tell whether a URL holds what must not be written down."""
    return re.search(r"://[^/@]*:[^/@]*@", database) is not None


def _database_line(database: str) -> str:
    if has_password(database):
        return ': "${PERFMODEL_DATABASE:?is not set: sbatch hands on the one that it has}"'
    return f"export PERFMODEL_DATABASE={shlex.quote(database)}"
