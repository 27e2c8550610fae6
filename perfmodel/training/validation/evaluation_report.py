"""The accuracy report: what the figures are, and the command that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from perfmodel.predictors.predictor import Sample
from perfmodel.store.durable import write_whole
from perfmodel.training.validation.evaluate import ENSEMBLE, Evaluation
from perfmodel.training.validation.workload_scores import Scores

_SHOWN_MODELS = 20
_MEANING = {
    "ensemble": "mix of the members, weights and intervals from inside the training part",
    "operators": "boosted trees per operator, added up",
    "gbdt": "boosted trees on whole-graph columns",
    "gnn": "graph network with additive read-out",
    "constant": "baseline: one FLOP rate per mode",
    "roofline": "baseline: nothing learned",
    "efficiency": "baseline: roofline with one efficiency per operator class",
}


def write_report(
    evaluation: Evaluation,
    path: Path,
    *,
    command: str,
    others: Sequence[Evaluation] = (),
) -> Path:
    """Write the scores of an evaluation as Markdown.

    Parameters
    ----------
    evaluation : Evaluation
        The hard split; quoted first.
    path : Path
        ``docs/accuracy.md``.
    command : str
        The command that writes this file; stated in it.
    others : sequence of Evaluation
        Further splits, for comparison.
    """
    lines = [
        *_head(evaluation, command),
        *_overall(evaluation),
        *_by_mode(evaluation),
        *_comparison(evaluation, others),
        *_models(evaluation),
        *_families(evaluation),
    ]
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path


def _head(evaluation: Evaluation, command: str) -> Iterator[str]:
    samples = evaluation.samples
    devices = sorted({sample.workload.accelerator.name for sample in samples})
    models = len({sample.model for sample in samples})
    yield from (
        "# Accuracy",
        "",
        f"This file is written by `{command}`; edit the code, not the file.",
        "",
        f"{len(samples)} measured workloads of {models} models from "
        f"{len(evaluation.families)} families, on {', '.join(devices)}. Data digest "
        f"`{evaluation.data_digest[:16]}`, seed {evaluation.seed}, "
        f"{len(np.unique(evaluation.fold))} folds, {evaluation.duration_s:.0f} s.",
        "",
        f"Split **{evaluation.split}**: every workload is answered by predictors that have seen "
        "nothing of its group. The weights of the ensemble and its intervals are learned inside "
        "the training part. Errors are relative errors of the step time, |predicted / measured - "
        "1|; *rank* is Spearman's correlation of samples per second; *batch ratio* is the error "
        "of the ratio between two batch sizes of one model.",
        "",
    )


def _overall(evaluation: Evaluation) -> Iterator[str]:
    yield from ("## All workloads", "")
    yield from _table(evaluation, None)
    yield ""


def _by_mode(evaluation: Evaluation) -> Iterator[str]:
    for mode in evaluation.modes:
        yield from (f"## {mode.capitalize()}", "")
        yield from _table(evaluation, mode)
        yield ""


def _table(evaluation: Evaluation, mode: str | None) -> Iterator[str]:
    target = f"{evaluation.coverage:.0%}"
    yield (
        "| predictor | what it is | MAPE | median | 90 % of errors below | bias | rank | "
        f"batch ratio | inside the {target} interval |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in evaluation.predictors:
        scores = evaluation.scores(name, mode=mode)
        label = f"**{name}**" if name == ENSEMBLE else name
        yield f"| {label} | {_MEANING.get(name, '')} | {_cells(scores)} |"


def _cells(scores: Scores) -> str:
    return " | ".join(
        [
            _percent(scores.mape),
            _percent(scores.median_ape),
            _percent(scores.p90_ape),
            f"{100 * scores.bias:+.1f} %",
            "" if scores.rank is None else f"{scores.rank:.3f}",
            _percent(scores.batch_ratio_error),
            _percent(scores.coverage),
        ]
    )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _comparison(evaluation: Evaluation, others: Sequence[Evaluation]) -> Iterator[str]:
    if not others:
        return
    yield from ("## Other splits", "", "| split | " + " | ".join(evaluation.predictors) + " |")
    yield "|---|" + "---:|" * len(evaluation.predictors)
    for one in (evaluation, *others):
        cells = [_percent(one.scores(name).mape) for name in evaluation.predictors]
        yield f"| {one.split} (MAPE) | {' | '.join(cells)} |"
    yield from ("", "The random split flatters: relatives of a workload lie on both sides.", "")


def _models(evaluation: Evaluation) -> Iterator[str]:
    chosen = held_out_models(evaluation.samples)
    yield from (
        f"## Predicted and measured, {len(chosen)} models of families that were held out",
        "",
        "One workload per model, one model per family, chosen by name and not by result.",
        "",
        "| model | family | mode | batch | measured, ms | predicted, ms | interval, ms | error |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    )
    for i in chosen:
        sample = evaluation.samples[i]
        answer = float(evaluation.answers_s[ENSEMBLE][i])
        yield (
            f"| {sample.model} | {sample.family} | {sample.workload.mode.value} | "
            f"{sample.workload.batch_size} | {1e3 * sample.step_time_s:.2f} | "
            f"{1e3 * answer:.2f} | {1e3 * evaluation.low_s[i]:.2f} to "
            f"{1e3 * evaluation.high_s[i]:.2f} | "
            f"{100 * (answer / sample.step_time_s - 1.0):+.1f} % |"
        )
    yield ""


def held_out_models(samples: Sequence[Sample], count: int = _SHOWN_MODELS) -> list[int]:
    """Return one sample of each of some families, modes in turn, by name alone.

    Parameters
    ----------
    count : int
        How many at most; families are spread evenly over their sorted names.

    Returns
    -------
    list of int
        Positions of samples.
    """
    families = sorted({sample.family for sample in samples})
    step = max(1.0, len(families) / count)
    picked = [families[int(i * step)] for i in range(min(count, len(families)))]
    chosen = []
    for turn, family in enumerate(picked):
        own = [i for i, sample in enumerate(samples) if sample.family == family]
        modes = sorted({samples[i].workload.mode.value for i in own})
        mode = modes[turn % len(modes)]
        of_mode = [i for i in own if samples[i].workload.mode.value == mode]
        of_mode.sort(key=lambda i: (samples[i].model, samples[i].workload.batch_size))
        chosen.append(of_mode[len(of_mode) // 2])
    return chosen


def _families(evaluation: Evaluation) -> Iterator[str]:
    yield from ("## By family", "", "| family | workloads | MAPE | worst | bias |")
    yield "|---|---:|---:|---:|---:|"
    rows = []
    for family in evaluation.families:
        scores = evaluation.scores(ENSEMBLE, family=family)
        chosen = [i for i, s in enumerate(evaluation.samples) if s.family == family]
        times = np.array([evaluation.samples[i].step_time_s for i in chosen])
        worst = float(np.abs(evaluation.answers_s[ENSEMBLE][chosen] / times - 1.0).max())
        rows.append((scores.mape, family, scores, worst))
    for mape, family, scores, worst in sorted(rows, reverse=True, key=lambda r: (r[0], r[1])):
        bias = f"{100 * scores.bias:+.1f} %"
        yield f"| {family} | {scores.count} | {_percent(mape)} | {_percent(worst)} | {bias} |"
