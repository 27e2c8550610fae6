"""Answer what was asked with two versions of the model, and say how far they differ."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import format_placement, parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.shadow.asked_questions import AskedQuestion
from perfmodel.store.shadow.comparisons import Comparison
from service.answering.answerer import Answerer

#: Longest texts of a comparison, characters.
_MOST_LABEL, _MOST_NAME, _MOST_FAMILY, _MOST_PROBLEM = 200, 200, 64, 500

_SEVERAL = "several kinds"
_WORD = re.compile(r"[a-z]+")


class Comparer:
    """Answers questions with two versions, both as the service would.

    Parameters
    ----------
    serving, shadow : Answerer
        On the same state.
    """

    def __init__(self, serving: Answerer, shadow: Answerer) -> None:
        self._serving = serving
        self._shadow = shadow

    def compare(self, questions: Sequence[AskedQuestion]) -> list[Comparison]:
        """Return one comparison for each question, whatever comes of it."""
        read = [(one, orjson.loads(one.content)) for one in questions]
        self._prepare([question["job"] for _, question in read])
        for answerer in (self._serving, self._shadow):
            # Many at once take hardly longer than one; what is wrong with one is found below.
            with suppress(PerfModelError, ArithmeticError):
                answerer.predict_steps_of([question for _, question in read])
        return [self._compare(asked, question) for asked, question in read]

    def _prepare(self, jobs: Iterable[Any]) -> None:
        """Have the graphs of jobs in memory, which both versions share."""
        for written in jobs:
            with suppress(PerfModelError):
                if self._serving.cache.job(written) is None:
                    self._serving.prepare(self._serving.read_job(written), written)

    def _compare(self, asked: AskedQuestion, question: Any) -> Comparison:
        serving, serving_problem = _answered(self._serving, question)
        shadow, shadow_problem = _answered(self._shadow, question)
        of_serving, of_shadow = _bare(self._serving, question), _bare(self._shadow, question)
        return replace(
            self._described(asked, question),
            serving_s=None if serving is None else of_serving,
            shadow_s=None if shadow is None else of_shadow,
            answered_ratio=None
            if serving is None or shadow is None
            else math.log(shadow.step_time_s / serving.step_time_s),
            serving_problem=serving_problem,
            shadow_problem=shadow_problem,
        )

    def _described(self, asked: AskedQuestion, question: Any) -> Comparison:
        catalog = self._serving.estimator.accelerators
        nothing = Comparison(
            question=asked.key, label="?", device="?", mode="?", family="?", placement_kind="?",
            job_family="", batch_size=1, accumulation_steps=1,
            placement=orjson.dumps(question["placement"]).decode(), named_placement="",
        )  # fmt: skip
        try:
            job = self._serving.read_job(question["job"])
            placement = parse_placement(question["placement"])
        except PerfModelError:
            return nothing
        named = named_placement(placement, catalog)
        return replace(
            nothing,
            label=f"{job.label} {job.mode.value} batch {job.batch_size}"[:_MOST_LABEL],
            device=device_of(named)[:_MOST_NAME],
            mode=job.mode.value,
            family=family_of(job)[:_MOST_FAMILY],
            placement_kind=placement_kind(placement),
            job_family=job.family,
            batch_size=job.batch_size,
            accumulation_steps=job.accumulation_steps,
            placement=_written(placement),
            named_placement=_written(named),
        )


def _answered(answerer: Answerer, question: Any) -> tuple[Estimate | None, str | None]:
    """Return an answer as people would get it, or why there is none."""
    try:
        answer = answerer.predict(question)
    except (PerfModelError, ArithmeticError, ValueError) as error:
        text = error.message if isinstance(error, PerfModelError) else repr(error)
        return None, text[:_MOST_PROBLEM]
    rate = answer.throughput
    sound = (answer.step_time_s, rate.samples_per_second, rate.low, rate.high)
    if not all(math.isfinite(value) and value > 0 for value in sound):
        return None, "The answer is no finite number above 0, or its interval is none."
    return answer, None


def _bare(answerer: Answerer, question: Any) -> float | None:
    """Return the time of a step without what was observed; None where there is nothing else."""
    try:
        answer = answerer.from_model(question)
    except (PerfModelError, ArithmeticError, ValueError):
        return None
    sound = answer is not None and math.isfinite(answer.step_time_s) and answer.step_time_s > 0
    return answer.step_time_s if answer is not None and sound else None


def named_placement(placement: Placement, catalog: Catalog) -> Placement:
    """Return a placement with its accelerators by the names of the catalogue."""
    nodes = []
    for node in placement.nodes:
        with suppress(PerfModelError):
            node = replace(node, accelerator=catalog.canonical_name(node.accelerator))
        nodes.append(node)
    return replace(placement, nodes=tuple(nodes))


def device_of(placement: Placement) -> str:
    """Return the accelerator of a placement."""
    kinds = {node.accelerator for node in placement.nodes}
    return kinds.pop() if len(kinds) == 1 else _SEVERAL


def placement_kind(placement: Placement) -> str:
    """Return the kind of a placement.

    Examples
    --------
    >>> [placement_kind(parse_placement(one)) for one in ("T4", "8xT4", "2x(8xT4)@eth-10g")]
    ['one accelerator', 'one host', 'several hosts']
    """
    if placement.shared_with or placement.fraction is not None:
        return "shared"
    if placement.accelerator_count == 1:
        return "one accelerator"
    return "one host" if placement.host_count == 1 else "several hosts"


def family_of(job: Job) -> str:
    """Return what models that are built alike begin with.

    Examples
    --------
    >>> from perfmodel.graph.job import Job
    >>> family_of(Job(model="timm/resnet50d", batch_size=1))
    'resnet'
    >>> family_of(Job(hf_config={"model_type": "gpt2"}, batch_size=1))
    'gpt'
    """
    if job.graph is not None:
        return "registered graphs"
    if job.job_type is not None:
        return "job types"
    name = job.model or str((job.hf_config or {}).get("model_type", ""))
    word = _WORD.match(name.rpartition("/")[2].lower())
    return word[0] if word else "other"


def _written(placement: Placement) -> str:
    return orjson.dumps(format_placement(placement), option=orjson.OPT_SORT_KEYS).decode()
