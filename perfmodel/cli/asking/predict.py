"""``perfmodel predict``: what throughput a job will reach on a placement."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.prepare import read_question
from perfmodel.cli.failures import EXIT_SOME_FAILED, problem
from perfmodel.cli.options import question_options
from perfmodel.cli.output import count, duration, memory, percent, print_facts, print_json
from perfmodel.cli.subjects import describe_job, parse_json
from perfmodel.errors import InvalidInputError, PerfModelError

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator
    from perfmodel.graph.job import Job
    from perfmodel.placement.estimate import Estimate


@click.command()
@click.argument("subject", metavar="MODEL|FILE|-")
@click.option("--on", "placement", metavar="PLACEMENT", help="For example 8xA100-SXM4-80GB.")
@click.option("--jsonl", is_flag=True, help="FILE holds a request a line; so does the answer.")
@question_options
def command(
    subject: str, placement: str | None, jsonl: bool, as_json: bool, **settings: Any
) -> None:
    """Predict the throughput of a job on a placement.

    In plain words, with a model as for `perfmodel capture`:

        perfmodel predict timm/resnet50 --batch-size 64 --mode training --on 8xA100-SXM4-80GB

    Or with the JSON that the service takes: a .json FILE, or - for standard input. With --jsonl
    each line is a request; answers come a line each, in order, and an error object stands in the
    place of a line that cannot be answered.
    """
    from perfmodel.estimator import Estimator

    estimator = Estimator.from_folder(settings["models"])
    if jsonl:
        _answer_lines(estimator, subject)
        return
    query, knowing = read_question(estimator, subject, placement, settings)
    found = knowing.estimate(query.job, query.placement, query.observations)
    if as_json:
        print_json(found.to_dict())
    else:
        print_estimate(query.job, found, estimator.problems)


def _answer_lines(estimator: Estimator, subject: str) -> None:
    """Answer one request a line; exit with 1 if any failed."""
    if subject != "-" and not Path(subject).is_file():
        raise InvalidInputError(f"There is no file {subject!r}.")
    failed = False
    with click.open_file(subject, "rb") as lines:
        for answer, good in _answers(estimator, lines):
            failed = failed or not good
            print_json(answer, one_line=True)
    if failed:
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _answers(estimator: Estimator, lines: Iterable[bytes]) -> Iterable[tuple[dict[str, Any], bool]]:
    """Yield each answer and whether it is one; blank lines are passed over."""
    from perfmodel.requests import parse_query

    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            query = parse_query(parse_json(line, source=f"Line {number}"))
            found = estimator.estimate(query.job, query.placement, query.observations)
            yield found.to_dict(), True
        except PerfModelError as error:
            yield {**problem(error), "line": number}, False


def _memory(found: Estimate) -> str:
    room = memory(found.memory.capacity_bytes)
    if found.memory.peak_bytes is None:
        return f"not known, of {room}"
    need, risk = memory(found.memory.peak_bytes), found.memory.oom_probability
    doubt = f" (runs out in {percent(risk)} of cases)" if risk and 0.01 < risk < 0.99 else ""
    return f"{need} of {room}: {'fits' if found.memory.fits else 'DOES NOT FIT'}{doubt}"


def print_estimate(job: Job, found: Estimate, problems: Iterable[str]) -> None:
    """Print an answer for people, and what is wrong with the installation."""
    rate = found.throughput
    facts = [
        ("job", describe_job(job)),
        ("throughput", f"{count(rate.samples_per_second)} samples/s"),
        (
            "interval",
            f"{count(rate.low)} to {count(rate.high)} samples/s ({percent(rate.coverage)})",
        ),
    ]
    if rate.tokens_per_second is not None:
        facts.append(("tokens", f"{count(rate.tokens_per_second)} tokens/s"))
    parts = {
        "compute": found.breakdown.compute_s,
        "exposed communication": found.breakdown.exposed_communication_s,
        "input stall": found.breakdown.input_stall_s,
        "overhead": found.breakdown.overhead_s,
    }
    spent = ", ".join(f"{name} {duration(time)}" for name, time in parts.items() if time > 0)
    facts += [
        ("step time", f"{duration(found.step_time_s)}: {spent}"),
        ("memory", _memory(found)),
        ("basis", found.basis.value + (", unlike anything measured" * found.out_of_distribution)),
        ("model", found.model_version),
    ]
    if found.nearest:
        facts.append(("nearest", "\n".join(found.nearest)))
    if found.unpriced_operators:
        named = ", ".join(f"{op} x{n}" for op, n in found.unpriced_operators.items())
        facts.append(("unpriced", named))
    facts += [("warning", text) for text in (*found.warnings, *problems)]
    print_facts(facts)
