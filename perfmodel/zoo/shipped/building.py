"""Fill the shipped library: capture each program at a few batches and find its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from perfmodel.errors import PerfModelError
from perfmodel.graph.by_rule.fitting import rule_through, rules_through
from perfmodel.graph.by_rule.rules import Point, Rule
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.zoo.shipped.graph_files import Rules
from perfmodel.zoo.shipped.variants import Domain

#: Rules go through these, and are checked at the others.
_BATCHES, _LENGTHS = (2, 3), (17, 40)
_MORE_BATCHES, _ANOTHER_BATCH = (5, 64, 512), (64,)
#: The longest sequences that are tried: models refuse what they have no positions for.
_LONGEST = (131_072, 32_768, 8_192, 4_096, 2_048, 1_024, 512, 448, 256, 128, 77, 64)
_ANOTHER_LENGTH = 64
#: Larger batches follow the same rules; a number that no batch has.
_ANY = 2**40


class Capture(NamedTuple):
    """What capturing a job gave."""

    graph: Graph
    tokens_per_sample: int | None


Capturing = Callable[[Job], Capture]


def rules_of(job: Job, capturing: Capturing, *, thorough: bool) -> list[Rules]:
    """Return the rules of a program: for one sample, and for several.

    Programs treat a single sample in a way of their own, as its layout leaves more than one order
    of dimensions.

    Parameters
    ----------
    job : Job
        Its batch does not matter.
    capturing : callable
        Captures a job here and now.
    thorough : bool
        Check the rules in more places; for the first program of a model and mode.

    Raises
    ------
    PerfModelError
        It cannot be captured at all.
    """
    program = _Program(job, capturing, thorough)
    found = [program.several_samples(), program.one_sample()]
    return [rules for rules in found if rules is not None]


class _Program:
    def __init__(self, job: Job, capturing: Capturing, thorough: bool) -> None:
        self._job = replace(job, sequence_length=None)
        self._capturing = capturing
        self._known: dict[tuple[int, int | None], Capture] = {}
        self._thorough = thorough
        self._usual = self._captured(2, None)
        self._longest = self._longest_sequence()

    def several_samples(self) -> Rules | None:
        """Return the rules of two samples and more."""
        if self._longest is None:
            return self._through([(size,) for size in self._batches()], (2, _ANY), None)
        points = [(size, length) for length in _LENGTHS for size in _BATCHES]
        more = self._more_lengths()
        return self._in_length(
            [*points, *zip(self._batches()[2:] * len(more), more, strict=False)], (2, _ANY)
        ) or self._through([(size,) for size in self._batches()], (2, _ANY), None)

    def one_sample(self) -> Rules | None:
        """Return the rules of a single sample."""
        try:
            if self._longest is not None:
                lengths = [(length,) for length in (*_LENGTHS, *self._more_lengths())]
                found = self._in_length(lengths, (1, 1))
                if found is not None:
                    return found
            return self._through([()], (1, 1), None)
        except PerfModelError:
            return None  # what normalises over a batch needs several

    def _in_length(self, points: Sequence[Point], batch: tuple[int, int]) -> Rules | None:
        """Return rules of any length from 2 on, or from the shortest that others go through."""
        assert self._longest is not None
        for least in (2, _LENGTHS[0]):
            chosen = [point for point in points if point[-1] >= least]
            found = self._through(chosen, batch, (least, self._longest))
            if found is not None:
                return found
        return None

    def _through(
        self, points: Sequence[Point], batch: tuple[int, int], sequence: tuple[int, int] | None
    ) -> Rules | None:
        shape = Domain(batch=batch, sequence=sequence, usual_length=None, tokens=None)
        captured = {point: self._captured(*_batch_of(point, shape)) for point in points}
        graph = rules_through({point: one.graph for point, one in captured.items()})
        tokens = _tokens(captured)
        if graph is None or tokens is False:
            return None
        usual = self._usual_length(tokens) if sequence else None
        domain = replace(shape, usual_length=usual, tokens=tokens)
        found = Rules(domain=domain, graph=graph)
        return found if sequence is None or self._gives_the_usual(found) else None

    def _gives_the_usual(self, rules: Rules) -> bool:
        """Tell whether no length stated is the usual one of the rules."""
        size = rules.domain.batch[0]
        point = rules.domain.point(size, None)
        if point is None:
            return False
        usual = self._usual if size == 2 else self._captured(size, None)
        return to_json(rules.graph.at(*point)) == to_json(usual.graph)

    def _usual_length(self, tokens: Rule | int | None) -> int | None:
        count = self._usual.tokens_per_sample
        if not isinstance(tokens, Rule) or count is None:
            return None
        # In one variable, or without a part of the batch in it.
        base, slope = tokens.coefficients[0], tokens.coefficients[-1 if self._is_one(tokens) else 2]
        return (count - base) // slope if slope and (count - base) % slope == 0 else None

    @staticmethod
    def _is_one(tokens: Rule) -> bool:
        return len(tokens.coefficients) == 2

    def _batches(self) -> list[int]:
        return [*_BATCHES, *(_MORE_BATCHES if self._thorough else _ANOTHER_BATCH)]

    def _more_lengths(self) -> list[int]:
        assert self._longest is not None
        if not self._thorough:
            return [min(_ANOTHER_LENGTH, self._longest)]
        return [33, 2, self._longest, min(_ANOTHER_LENGTH, self._longest)]

    def _longest_sequence(self) -> int | None:
        """Return the longest sequence that is taken; None where lengths follow no rule."""
        try:
            first, second = (self._captured(2, length).graph for length in _LENGTHS)
        except PerfModelError:
            return None
        if len(first.nodes) != len(second.nodes):
            return None  # it goes through a sequence step by step
        return next((length for length in _LONGEST if self._takes(length)), None)

    def _takes(self, length: int) -> bool:
        try:
            self._captured(2, length)
        except PerfModelError:
            return False
        return True

    def _captured(self, batch_size: int, length: int | None) -> Capture:
        asked = (batch_size, length)
        if asked not in self._known:
            job = replace(self._job, batch_size=batch_size, sequence_length=length)
            self._known[asked] = self._capturing(job)
        return self._known[asked]


def _batch_of(point: Point, shape: Domain) -> tuple[int, int | None]:
    """Return batch size and sequence length of a point."""
    values = list(point)
    size = values.pop(0) if shape.batch[0] < shape.batch[1] else shape.batch[0]
    return size, values.pop(0) if values else None


def _tokens(captured: Mapping[Point, Capture]) -> Rule | int | None | bool:
    """Return the tokens of a sample by rule; False where they follow none."""
    counts = [one.tokens_per_sample for one in captured.values()]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None if not known else False
    found = rule_through(tuple(captured), known)
    return False if found is None else found


def same_as_captured(job: Job, rules: Iterable[Rules], capturing: Capturing) -> bool:
    """Tell whether the rules of a program give what capturing a job gives, byte for byte."""
    truth = capturing(job)
    for one in rules:
        point = one.domain.point(job.batch_size, job.sequence_length)
        if point is not None:
            same = to_json(one.graph.at(*point)) == to_json(truth.graph)
            return same and one.domain.tokens_at(point) == truth.tokens_per_sample
    return False
