"""Write docs/accuracy.md from the answers of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from accuracy_report.goals import GOALS, Goal
from accuracy_report.kept_sections import LOCKBOX_HEADING, kept_sections, with_section
from accuracy_report.kernel_accuracy import FAST_LIMIT, FAST_ROUNDS, FULL_LIMIT
from accuracy_report.lockbox import lockbox_lines
from accuracy_report.markdown import bars, number, percent, table
from accuracy_report.methods import MethodTable, load_methods, method_lines
from accuracy_report.not_blind import NOT_BLIND
from accuracy_report.summary import Line, ProbePoint, probe_curve, summarise
from held_out.cross_validation import load_answers, load_facts
from held_out.frozen_folds import SPLITS
from held_out.metrics import LEAST_GROUP, HeldOutScores

from perfmodel.store.durable import write_whole

_TITLES = {
    "mean-rate": "mean FLOP rate",
    "roofline": "roofline",
    "transfer": "other device x constant",
    "totals": "XGBoost on totals",
}
#: Families shown from each end.
_SHOWN_FAMILIES = 10


def write_report(
    folder: Path,
    path: Path,
    *,
    command: str,
    json_path: Path | None = None,
) -> None:
    """Write the report of a run; nothing is fitted.

    Parameters
    ----------
    folder : Path
        Where :func:`.cross_validate` left its answers.
    path : Path
        Markdown file.
    command : str
        What writes it again; stated in it.
    json_path : Path or None
        Gets the scores as JSON.
    """
    answers, facts = load_answers(folder), load_facts(folder)
    lines = summarise(answers)
    curve = probe_curve(answers, _curve_goal())
    others = load_methods(folder)
    page = [*_head(facts, command, set(answers.split.tolist())), *_headline(lines, others)]
    page += [*_ratios(lines), *_intervals(lines), *_surprises(lines), *_curve(curve)]
    for line in lines:
        page += _behind(line)
    page += method_lines(others)
    lockbox = list(lockbox_lines(answers))
    page += [*lockbox, *kept_sections(path, lockbox), *_not_blind(), *_left_out(facts)]
    write_whole(path, ("\n".join(page).rstrip() + "\n").encode())
    if json_path is not None:
        document = {
            "run": {name: value for name, value in facts.items() if name != "folds"},
            "lines": {line.goal.name: line.to_dict() for line in lines},
            "methods": {one.name: one.to_dict() for one in others},
        }
        write_whole(json_path, orjson.dumps(document, option=orjson.OPT_INDENT_2))


def write_lockbox(folder: Path, path: Path, *, command: str) -> None:
    """Write the section on the lockbox into a page that lies there, and nothing else."""
    facts = load_facts(folder)
    heading, *rest = lockbox_lines(load_answers(folder))
    form = "fast form" if facts["fast"] else "full form"
    written = f"Written by `{command}` ({form}, seed {facts['seed']}, {_learned_from(facts)})."
    page = with_section(path.read_text(), LOCKBOX_HEADING, "\n".join([heading, "", written, *rest]))
    write_whole(path, page.encode())


def _learned_from(facts: Mapping[str, Any]) -> str:
    sources = ", ".join(f"{name} {rows}" for name, rows in sorted(facts["sources"].items()))
    return f"{facts['samples']} steps: {sources}"


def _curve_goal() -> Goal:
    return next(goal for goal in GOALS if goal.name == "timm-inference-unseen-device")


def _not_blind() -> Iterator[str]:
    yield from ("## What was not blind", "")
    yield "These were chosen after a look at answers that stand above:"
    yield ""
    yield from (f"- {sentence}" for sentence in NOT_BLIND)
    yield ""


def _of_operators(count: int) -> str:
    if not count:
        return ""
    return (
        f" Learned from as well: {count} operators measured alone, those of a device that is "
        "left out aside."
    )


def _duration(facts: Mapping[str, Any]) -> str:
    minutes = f"{facts['duration_s'] / 60:.0f} minutes"
    if "processor_s" not in facts:
        return minutes
    return f"{minutes}, {facts['processor_s'] / 60:.0f} of one processor"


def _head(facts: Mapping[str, Any], command: str, run: Collection[str]) -> Iterator[str]:
    form = "fast form: fewer folds on fewer samples" if facts["fast"] else "full form"
    yield from ("# Accuracy", "")
    yield (
        f"Written by `{command}` ({form}, seed {facts['seed']}, {_duration(facts)}). Learner: "
        f"{facts['learner']}. {facts['samples']} measured steps of "
        f"{facts['models']} models of {facts['families']} families on {facts['devices']} "
        "accelerators, by source: "
        + ", ".join(f"{name} {rows}" for name, rows in sorted(facts["sources"].items()))
        + "."
        + _of_operators(facts.get("operators", 0))
    )
    yield ""
    missing = [split for split in SPLITS if split not in run]
    yield (
        f"Splits of this run: {', '.join(split for split in SPLITS if split in run)}; not run: "
        f"{', '.join(missing) or 'none'}."
    )
    yield ""
    yield (
        "Every answer comes from a fit that has not seen what its line leaves out. The learner is "
        "given the training part of a fold and nothing else; what it chooses or calibrates, its "
        "intervals among it, it takes from there. Folds follow from hashes of names "
        "(`benchmarks/held_out/frozen_folds.py`). Errors are relative errors of the "
        "step time. Baselines learn from the same training parts; a dash means that one answers "
        "fewer than half of the rows."
    )
    yield ""


def _headline(lines: Sequence[Line], others: Sequence[MethodTable]) -> Iterator[str]:
    names = list(dict.fromkeys(name for line in lines for name in line.baselines))
    header = ["asked", "rows", "MAPE", "to reach", "median", "90 % below", "bias"]
    rows = []
    for line in lines:
        scores = line.scores
        rows.append(
            [
                line.goal.title,
                str(scores.rows),
                f"**{percent(scores.mape)}**",
                _wanted(line.goal.target, scores.mape),
                percent(scores.median),
                percent(scores.p90),
                percent(scores.bias, signed=True),
                *(_mape(line.baselines.get(name)) for name in names),
            ]
        )
    for one in others:
        error = one.errors(next(iter(one.predicted_s)))
        mape, title = float(error.mean()), f"{one.title} (baselines below)"
        cells = [title, str(len(error)), f"**{percent(mape)}**", _wanted(one.target, mape)]
        cells += [percent(float(np.median(error))), percent(float(np.quantile(error, 0.9)))]
        rows.append([*cells, *["-"] * (1 + len(names))])
    yield from ("## In one table", "")
    yield from table([*header, *(_TITLES.get(n, n) for n in names)], rows)


def _wanted(target: float | None, mape: float) -> str:
    if target is None:
        return "-"
    return f"{percent(target)} {'reached' if mape <= target else 'missed'}"


def _mape(scores: HeldOutScores | None) -> str:
    return percent(scores.mape if scores else None)


def _ratios(lines: Sequence[Line]) -> Iterator[str]:
    yield from ("## Ratios and ranks", "")
    yield (
        "A scheduler compares. Ratio error: mean error of the ratio of two throughputs of one "
        "job, over all pairs of its rows, and over pairs on different devices. Rank: Spearman's "
        "correlation of predicted and measured samples per second. Beside them those of the "
        "roofline and of XGBoost on totals."
    )
    yield ""
    header = ["asked", "ratio", "ratio, devices", "rank"]
    header += ["ratio (roofline)", "rank (roofline)", "ratio (XGBoost)", "rank (XGBoost)"]
    rows = []
    for line in lines:
        cells = [line.goal.title, percent(line.scores.ratio_error)]
        cells += [percent(line.scores.device_ratio_error), number(line.scores.rank)]
        for name in ("roofline", "totals"):
            scores = line.baselines.get(name)
            cells.append(percent(scores.ratio_error if scores else None))
            cells.append(number(scores.rank if scores else None))
        rows.append(cells)
    yield from table(header, rows)


def _intervals(lines: Sequence[Line]) -> Iterator[str]:
    yield from ("## Intervals", "")
    yield (
        f"Share of measured times inside the interval, for every group of at least {LEAST_GROUP} "
        "rows, and the median of the width over the prediction."
    )
    yield ""
    rows = []
    for line in lines:
        scores = line.scores
        rows.append([line.goal.title, "all", str(scores.rows), percent(scores.coverage)])
        rows[-1].append(percent(scores.width))
        for group in line.groups:
            inside, width = percent(group.coverage), percent(group.width)
            rows.append(["", group.group, str(group.rows), inside, width])
    yield from table(["asked", "group", "rows", "inside", "width"], rows, left=2)


def _surprises(lines: Sequence[Line]) -> Iterator[str]:
    yield from ("## Out of distribution", "")
    yield (
        "Rows whose error is beyond three times the stated half-width, how many of them were "
        "called out of distribution, and how many of all rows were."
    )
    yield ""
    rows = [
        [
            line.goal.title,
            str(line.scores.rows),
            str(line.scores.surprises),
            percent(line.scores.surprises_flagged),
            percent(line.scores.flagged),
        ]
        for line in lines
    ]
    yield from table(["asked", "rows", "beyond 3x", "of these flagged", "of all flagged"], rows)


def _curve(points: Sequence[ProbePoint]) -> Iterator[str]:
    if not points:
        return
    yield from ("## A few probes of a new device", "")
    yield (
        "Error on a device that was left out, after k of its records have been taken into account "
        "without a new fit. No model of any probe is among the rows that are asked. Planned: the "
        "workloads that `perfmodel probe-plan` names; random: by hash. Baselines are given the "
        "same records."
    )
    yield ""
    names = list(dict.fromkeys(name for point in points for name in point.baselines))
    rows = []
    for point in points:
        cells = [point.device, point.choice or "-", str(point.probes), str(point.rows)]
        cells += [f"**{percent(point.mape)}**", percent(point.coverage)]
        rows.append([*cells, *(percent(point.baselines.get(name)) for name in names)])
    header = ["device", "chosen", "k", "rows", "MAPE", "inside"]
    yield from table([*header, *(_TITLES.get(n, n) for n in names)], rows, left=2)
    ways = {point.choice for point in points}
    shown = "planned" if "planned" in ways else min(ways - {""}, default="")
    drawn = [p for p in points if p.choice in ("", shown)]
    yield from bars([(f"{p.device} k={p.probes}", p.mape) for p in drawn])


def _behind(line: Line) -> Iterator[str]:
    """Say how a line comes about: by device, and by family from both ends."""
    if line.goal.probes:
        return
    title = line.goal.title
    yield from (f"## {title[0].upper()}{title[1:]}", "")
    header = ["rows", "MAPE", "median", "90 % below", "bias", "ratio", "rank", "inside"]
    yield from table(["device", *header], [[name, *_cells(s)] for name, s in line.devices.items()])
    families = sorted(line.families.items(), key=lambda item: (-item[1].mape, item[0]))
    if len(families) > 2 * _SHOWN_FAMILIES:
        hidden = len(families) - 2 * _SHOWN_FAMILIES
        shown = [[name, *_cells(s)] for name, s in families[:_SHOWN_FAMILIES]]
        shown.append([f"({hidden} more)", *[""] * len(header)])
        shown += [[name, *_cells(s)] for name, s in families[-_SHOWN_FAMILIES:]]
    else:
        shown = [[name, *_cells(s)] for name, s in families]
    if shown:
        yield from table(["family", *header], shown)


def _cells(scores: HeldOutScores) -> list[str]:
    return [
        str(scores.rows), percent(scores.mape), percent(scores.median), percent(scores.p90),
        percent(scores.bias, signed=True), percent(scores.ratio_error), number(scores.rank),
        percent(scores.coverage),
    ]  # fmt: skip


def _fast_form(facts: Mapping[str, Any]) -> str:
    effort = facts["effort"]
    return (
        f"The fast form fitted {len(facts['folds'])} of the {facts['folds_of_the_full_form']} "
        f"folds of the full form, each on at most {effort['most_learned']} steps and "
        f"{effort['most_operators']} operators alone, and asked each about at most "
        f"{effort['most_asked']}. Kernels: at most {FAST_LIMIT} calls of each operator and device "
        f"of {FULL_LIMIT}, and {FAST_ROUNDS} rounds of trees. Which, follows from hashes of names "
        "and shapes, never from an answer. Placements: fewer folds, one draw of what is observed "
        "in place of four or five, and a part of the questions (`benchmarks/placement_accuracy/`)."
    )


def _left_out(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## What was left out, and how long it took", "")
    if facts["fast"]:
        yield from (_fast_form(facts), "")
    for title, counts in (
        ("Imported steps that could not be used", facts.get("dropped") or {}),
        ("Rows of tables that were not understood", facts.get("rejected") or {}),
    ):
        listed = ", ".join(f"{count} ({reason})" for reason, count in sorted(counts.items()))
        yield f"{title}: {listed or 'none'}."
        yield ""
    folds = facts["folds"]
    fit_s = sum(fold["fit_s"] for fold in folds)
    asked = sum(fold["asked"] for fold in folds)
    predict_s = sum(fold["predict_s"] for fold in folds)
    yield (
        f"{len(folds)} fits took {fit_s / 60:.1f} minutes together, {asked} answers "
        f"{1e3 * predict_s / max(asked, 1):.2f} ms each."
    )
    yield ""
