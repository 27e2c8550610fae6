"""SkyPilot: how long a task will take on the resources that its optimiser considers.

    task.set_time_estimator(TimeEstimator(Service(url), job, total_samples=1e8, num_nodes=2))
    sky.Optimizer.optimize(dag, minimize=sky.OptimizeTarget.COST)

The optimiser hands over resources without the number of nodes, so that the estimator has to be
told. A task in YAML cannot have an estimator; :func:`resources_yaml` writes its accelerators in
the order of predicted throughput.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from perfmodel.adapters.ask import Answers, JobForm, NoAnswerError
from perfmodel.adapters.measured.numbers import stated_count, stated_number
from perfmodel.errors import InvalidInputError

LOG = logging.getLogger(__name__)

#: What SkyPilot takes for a task without an estimator.
DEFAULT_S = 3600.0
#: For what cannot run the job: ten years, a number that SkyPilot can still calculate with.
NEVER_S = 10 * 365 * 86_400.0


class TimeEstimator:
    """A time estimator of a SkyPilot task.

    Without an answer it says what SkyPilot says without an estimator, and goes on saying that, so
    that one decision never compares predictions with guesses.

    Parameters
    ----------
    default_s : float
        Said when the service does not answer.

    Raises
    ------
    InvalidInputError
        ``total_samples`` or ``num_nodes`` that are none.
    """

    def __init__(
        self,
        answers: Answers,
        job: JobForm,
        *,
        total_samples: float,
        num_nodes: int = 1,
        default_s: float = DEFAULT_S,
    ) -> None:
        self._answers = answers
        self._job = job
        self._total_samples = stated_number(total_samples, "total_samples")
        self._num_nodes = stated_count(num_nodes, "num_nodes")
        self._default_s = default_s
        self._known: dict[tuple[str, float], float] = {}
        self._is_silent = False

    def __call__(self, resources: Any) -> float:
        """Return the seconds that the task takes on some resources of SkyPilot."""
        accelerators: Mapping[str, Any] = getattr(resources, "accelerators", None) or {}
        if self._is_silent:
            return self._default_s
        if len(accelerators) != 1:
            return NEVER_S  # nothing to train on, or a mixture that SkyPilot has no name for
        ((name, said),) = accelerators.items()
        try:
            key = (str(name), stated_number(said, f"The count of {name}"))
        except InvalidInputError as error:
            LOG.warning("SkyPilot asks about resources that cannot be: %s", error)
            return NEVER_S
        if key not in self._known:
            try:
                self._known[key] = self._seconds(*key)
            except NoAnswerError as error:
                LOG.warning("SkyPilot goes on without predictions: %s", error)
                self._is_silent = True
                return self._default_s
        return self._known[key]

    def _seconds(self, name: str, count: float) -> float:
        [[cell]] = self._answers.cells([self._job], [_placement(name, count, self._num_nodes)])
        if cell is None or cell.fits is False:
            return NEVER_S
        return self._total_samples / cell.samples_per_second


def resources_yaml(
    answers: Answers, job: JobForm, accelerators: Mapping[str, int], *, num_nodes: int = 1
) -> str:
    """Return the part of a task's YAML that says which accelerators to try, best first.

    Parameters
    ----------
    accelerators : mapping of str to int
        SkyPilot's names and how many of each a node has.

    Returns
    -------
    str
        ``ordered`` by predicted throughput, without those that the job does not fit on, and those
        that have no answer last; ``any_of`` all of them where nothing is answered, or fits.

    Raises
    ------
    InvalidInputError
        No accelerators, or counts that are none.
    """
    if not accelerators:
        raise InvalidInputError("Name at least one accelerator, as in {'A100': 8}.")
    named = [(name, stated_count(n, f"The count of {name}")) for name, n in accelerators.items()]
    stated_count(num_nodes, "num_nodes")
    try:
        [cells] = answers.cells([job], [_placement(*one, num_nodes) for one in named])
    except NoAnswerError as error:
        LOG.warning("SkyPilot goes on without predictions: %s", error)
        return _yaml("any_of", named)
    pairs = list(zip(cells, named, strict=True))
    known = [(cell, one) for cell, one in pairs if cell is not None]
    fitting = [(cell, one) for cell, one in known if cell.fits is not False]
    # What nobody knows is neither praised nor taken away.
    unknown = [one for cell, one in pairs if cell is None]
    if not fitting and (not unknown or not known):
        return _yaml("any_of", named)
    fitting.sort(key=lambda pair: -pair[0].samples_per_second)
    return _yaml("ordered", [*[one for _, one in fitting], *unknown])


def _placement(name: str, count: float, num_nodes: int) -> dict[str, Any]:
    """Return a placement of some accelerators of each node, or of a part of one."""
    if 0 < count < 1:
        node = {"accelerator": name, "repeat": num_nodes}
        return {"nodes": [node], "fraction": count}
    # What is no whole number is refused there, with the reason.
    whole = int(count) if float(count).is_integer() else count
    return {"nodes": [{"accelerator": name, "count": whole, "repeat": num_nodes}]}


def _yaml(word: str, accelerators: Sequence[tuple[str, int]]) -> str:
    lines = [f"    - accelerators: {name}:{count}" for name, count in accelerators]
    return "\n".join(["resources:", f"  {word}:", *lines]) + "\n"
