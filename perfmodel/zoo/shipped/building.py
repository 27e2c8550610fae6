"""Find the rules of a program by capturing it at a few batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from perfmodel.errors import PerfModelError
from perfmodel.graph.by_rule.fitting import rules_through
from perfmodel.graph.by_rule.rules import Point
from perfmodel.graph.by_rule.transfer import transferred
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.zoo.shipped.graph_files import Rules
from perfmodel.zoo.shipped.variants import Domain

#: Rules go through these, and are checked at others.
_BATCHES, _LENGTHS = (2, 3), (17, 28, 40)
_MORE_BATCHES, _ANOTHER_BATCH = (5, 512), 64
_MORE_LENGTHS, _ANOTHER_LENGTH = (33,), 60
#: The longest sequences that are tried: models refuse what they have no positions for.
_LONGEST = (131_072, 32_768, 8_192, 4_096, 2_048, 1_024, 512, 448, 256, 128, 77, 64)
#: Batches have no most; a number that none has.
_ANY = 2**40
_SHORTEST = (2, _LENGTHS[0])


class Capture(NamedTuple):
    """What capturing a job gave."""

    graph: Graph
    tokens_per_sample: int | None


Capturing = Callable[[Job], Capture]
Range = tuple[int, int]


def rules_of(job: Job, capturing: Capturing, *, thorough: bool) -> list[Rules]:
    """Return the rules of a program, each for some batches; those that have none are left out.

    A single sample has rules of its own, as its layout leaves more than one order of dimensions.
    So has a sequence as long as the model takes, of which programs leave out to cut it to length.

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
    return [*program.rules((2, _ANY)), *program.rules((1, 1))]


def rules_like(job: Job, others: Sequence[Rules], capturing: Capturing) -> list[Rules] | None:
    """Return the rules of a program that has the structure of another; None where it has not.

    Three captures tell for each kind of batches: one what is another, two whether the rest is not.
    """
    found = []
    for rules in others:
        point, *more = _corners(rules.domain)
        captures = (_captured_at(job, rules.domain, one, capturing) for one in (point, *more))
        graph = transferred(rules.graph, point, next(captures).graph)
        if graph is None:
            return None
        pairs = zip(more, captures, strict=True)
        if not all(_same(graph.at(*one), capture.graph) for one, capture in pairs):
            return None
        found.append(Rules(domain=rules.domain, graph=graph))
    return found


def _corners(domain: Domain) -> list[Point]:
    """Return a point of a domain and others that differ from it in everything that varies."""
    sizes = [(2, 3, 64)] if domain.batch[0] < domain.batch[1] else []
    least, most = domain.sequence or (0, 0)
    lengths = [(_LENGTHS[0], least, most)] if least < most else []
    return list(dict.fromkeys(zip(*sizes, *lengths, strict=True))) or [()]


def _captured_at(job: Job, domain: Domain, point: Point, capturing: Capturing) -> Capture:
    size, length = domain.batch_of(point)
    return capturing(replace(job, batch_size=size, sequence_length=length))


class _Program:
    def __init__(self, job: Job, capturing: Capturing, thorough: bool) -> None:
        self._job = job
        self._capturing = capturing
        self._thorough = thorough
        self._known: dict[tuple[int, int | None], Capture] = {}
        usual = self._captured(2, None)
        self._tokens, self._usual = _usual(usual, [self._tried(length) for length in _LENGTHS[:2]])
        self._longest = self._longest_sequence()

    def rules(self, batch: Range) -> list[Rules]:
        """Return the rules of some batches, for all sequences that have any."""
        try:
            found = list(self._by_length(batch))
        except PerfModelError:
            return []  # what normalises over a batch needs several samples
        return [rules for rules in found if rules is not None]

    def _by_length(self, batch: Range) -> Iterable[Rules | None]:
        """Yield rules of a range of lengths, and of single ones that it does not tell."""
        ranged = self._ranged(batch)
        if ranged is not None:
            yield ranged
        if self._usual is None:
            yield self._through(batch, None)
        for length in {self._usual, self._longest} - {None}:
            assert length is not None
            if ranged is None or not self._tells(ranged, length):
                yield self._through(batch, (length, length))

    def _ranged(self, batch: Range) -> Rules | None:
        if self._longest is None:
            return None
        for most in (self._longest, self._longest - 1):
            for least in _SHORTEST:
                found = self._through(batch, (least, most))
                if found is not None:
                    return found
        return None

    def _through(self, batch: Range, sequence: Range | None) -> Rules | None:
        count = self._captured(2, None).tokens_per_sample
        alone = None if count is None else (count, 0)
        domain = Domain(
            batch=batch,
            sequence=sequence,
            usual_length=self._usual if sequence else None,
            tokens=self._tokens if sequence else alone,
        )
        captured = {point: self._at(domain, point).graph for point in self._points(domain)}
        graph = rules_through(captured, domain.degrees)
        return None if graph is None else Rules(domain=domain, graph=graph)

    def _points(self, domain: Domain) -> list[Point]:
        """Return where a program is captured: first what is solved for, then what checks it."""
        sizes = [] if domain.batch[0] == domain.batch[1] else [*_BATCHES]
        more_sizes = [_ANOTHER_BATCH, *(_MORE_BATCHES if self._thorough else ())]
        if domain.sequence is None or domain.sequence[0] == domain.sequence[1]:
            return [(size,) for size in (*sizes, *more_sizes)] if sizes else [()]
        lengths = [*domain.sequence, min(_ANOTHER_LENGTH, domain.sequence[1])]
        if self._thorough:
            lengths += _MORE_LENGTHS
        if not sizes:
            return [(length,) for length in (*_LENGTHS, *lengths)]
        first = [(size, length) for size in sizes for length in _LENGTHS]
        pairs = zip(more_sizes * len(lengths), lengths, strict=False)
        return [*first, *pairs]

    def _at(self, domain: Domain, point: Point) -> Capture:
        return self._captured(*domain.batch_of(point))

    def _tells(self, rules: Rules, length: int) -> bool:
        """Tell whether rules give the graph of a length, or their range ends before it."""
        size = max(2, rules.domain.batch[0]) if rules.domain.batch[1] > 1 else 1
        point = rules.domain.point(size, length)
        if point is None:
            return False
        return _same(rules.graph.at(*point), self._captured(size, length).graph)

    def _longest_sequence(self) -> int | None:
        """Return the longest sequence that is taken; None where lengths follow no rule."""
        first, second = (self._tried(length) for length in _LENGTHS[:2])
        if not first or not second or len(first.graph.nodes) != len(second.graph.nodes):
            return None  # it goes through a sequence step by step
        return next((length for length in _LONGEST if self._tried(length)), None)

    def _tried(self, length: int) -> Capture | None:
        try:
            return self._captured(2, length)
        except PerfModelError:
            return None

    def _captured(self, batch_size: int, length: int | None) -> Capture:
        asked = (batch_size, length)
        if asked not in self._known:
            job = replace(self._job, batch_size=batch_size, sequence_length=length)
            self._known[asked] = self._capturing(job)
        return self._known[asked]


def _usual(
    usual: Capture, tried: Sequence[Capture | None]
) -> tuple[tuple[int, int] | None, int | None]:
    """Return the tokens of a sample by length, and the length where none is stated."""
    counts = [one.tokens_per_sample for one in tried if one is not None]
    known = [count for count in counts if count is not None]
    if len(known) < len(tried):
        return None, None
    rise, run = known[1] - known[0], _LENGTHS[1] - _LENGTHS[0]
    each = rise // run
    base, count = known[0] - each * _LENGTHS[0], usual.tokens_per_sample
    is_one = each > 0 and count is not None and (count - base) % each == 0
    return (base, each), (count - base) // each if is_one and count is not None else None


def same_as_captured(job: Job, rules: Iterable[Rules], capturing: Capturing) -> bool:
    """Tell whether the rules of a program give what capturing a job gives, byte for byte."""
    truth = capturing(job)
    for one in rules:
        point = one.domain.point(job.batch_size, job.sequence_length)
        if point is not None:
            tokens = one.domain.tokens_of(job.sequence_length)
            return _same(one.graph.at(*point), truth.graph) and tokens == truth.tokens_per_sample
    return False


def _same(one: Graph, other: Graph) -> bool:
    return to_json(one) == to_json(other)
