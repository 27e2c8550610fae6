"""``perfmodel predict``: what throughput a job will reach on a placement."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.asking.answering import Answers, answered
from perfmodel.cli.asking.prepare import read_question
from perfmodel.cli.failures import EXIT_SOME_FAILED, problem
from perfmodel.cli.options import (
    answering_options,
    on_option,
    question_options,
    refuse_options,
)
from perfmodel.cli.output import count, duration, memory, percent, print_facts, print_json
from perfmodel.cli.subjects import describe_job, parse_json
from perfmodel.errors import InvalidInputError, PerfModelError


@click.command()
@click.argument("subject", metavar="MODEL|FILE|-", required=False)
@on_option("placement", "For example 8xA100-SXM4-80GB.")
@click.option("--jsonl", is_flag=True, help="FILE holds a request a line; so does the answer.")
@question_options
@answering_options
def command(
    subject: str | None, placement: str | None, jsonl: bool, as_json: bool, **settings: Any
) -> None:
    """Predict the throughput of a job on a placement.

    In plain words, with a model as for `perfmodel capture`:

        perfmodel predict timm/resnet50 --batch-size 64 --mode training --on 8xA100-SXM4-80GB

    Or with the JSON that the service takes: a .json FILE, or - for standard input. With --jsonl
    each line is a request; answers come a line each, in order, and an error object stands in the
    place of a line that cannot be answered.
    """
    if jsonl:
        if subject is None:
            raise click.UsageError("Name the file of requests, or - for standard input.")
        if placement is not None:
            raise InvalidInputError("Each request names its placement; leave --on out.")
        refuse_options(settings, "Each request says")
        answered(settings, partial(_answer_lines, subject))
        return
    request, graph = read_question(subject, placement, settings)
    found, problems = answered(settings, lambda who: (who.predict(request), who.problems), graph)
    if as_json:
        print_json(found)
    else:
        print_estimate(_described(request, subject if graph else None), found, problems)


def _described(request: Mapping[str, Any], file: str | None) -> str:
    from perfmodel.requests import parse_job

    job = request["job"]
    # A registered one, in either form that the service takes.
    ref = job.get("ref") if isinstance(job, Mapping) else job
    return ref if isinstance(ref, str) else describe_job(parse_job(job), file)


def _answer_lines(subject: str, who: Answers) -> None:
    """Answer one request a line; exit with 1 if any failed."""
    if subject != "-" and not Path(subject).is_file():
        raise InvalidInputError(f"There is no file {subject!r}.")
    failed = False
    with click.open_file(subject, "rb") as lines:
        for answer, good in _answers(who, lines):
            failed = failed or not good
            print_json(answer, one_line=True)
    if failed:
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _answers(who: Answers, lines: Iterable[bytes]) -> Iterable[tuple[dict[str, Any], bool]]:
    """Yield each answer and whether it is one; blank lines are passed over."""
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix(BOM_UTF8) if number == 1 else line
        if not line.strip():
            continue
        try:
            yield who.predict(parse_json(line, source=f"Line {number}")), True
        except PerfModelError as error:
            yield {**problem(error), "line": number}, False


def _memory(found: Mapping[str, Any]) -> str:
    room = memory(found["capacity_bytes"])
    if found["peak_bytes"] is None:
        ran_out = ": DOES NOT FIT, as was observed" if found["fits"] is False else ""
        return f"not known, of {room}{ran_out}"
    need, risk = memory(found["peak_bytes"]), found["oom_probability"]
    doubt = f" (runs out in {percent(risk)} of cases)" if risk and 0.01 < risk < 0.99 else ""
    return f"{need} of {room}: {'fits' if found['fits'] else 'DOES NOT FIT'}{doubt}"


def print_estimate(job: str, found: Mapping[str, Any], problems: Iterable[str]) -> None:
    """Print an answer for people, and what is wrong with the installation.

    Parameters
    ----------
    job : str
        The job in words.
    found : mapping
        As ``POST /v1/predict`` answers.
    """
    rate, unlike = found["throughput"], found["out_of_distribution"]
    low, high = count(rate["low"]), count(rate["high"])
    facts = [
        ("job", job),
        ("throughput", f"{count(rate['samples_per_second'])} samples/s"),
        ("interval", f"{low} to {high} samples/s ({percent(rate['coverage'])})"),
    ]
    if rate["tokens_per_second"] is not None:
        facts.append(("tokens", f"{count(rate['tokens_per_second'])} tokens/s"))
    parts = {
        name.removesuffix("_s").replace("_", " "): time for name, time in found["breakdown"].items()
    }
    spent = ", ".join(f"{name} {duration(time)}" for name, time in parts.items() if time > 0)
    facts += [
        ("step time", f"{duration(found['step_time_s'])}: {spent}"),
        ("memory", _memory(found["memory"])),
        ("basis", found["basis"] + (", unlike anything measured" * unlike)),
        ("model", found["model_version"]),
    ]
    if found["nearest"]:
        facts.append(("nearest", "\n".join(found["nearest"])))
    if found["unpriced_operators"]:
        named = ", ".join(f"{op} x{n}" for op, n in found["unpriced_operators"].items())
        facts.append(("unpriced", named))
    facts += [("warning", text) for text in (*found["warnings"], *problems)]
    print_facts(facts)
