"""How wrong a table of rates is, in the parts that policies look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from cluster_simulation.goodput_rates import StepTable
from cluster_simulation.rates import Rates
from cluster_simulation.rounds import FloatArray
from regret_report.repairs import families, log_errors
from regret_report.seen_rates import BLIND, ORACLE


def sharing_errors(tables: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """Return a row for each table that predicts.

    Errors are means of |ln(seen / measured)|: of rates, of a kind beside the first, of more
    accelerators beside one, and of what a job keeps of its rate beside another.
    """
    measured = tables[ORACLE]
    return [
        {
            "table": name,
            "rates": _mean(log_errors(table, measured)),
            "between kinds": _mean(_between_kinds(table, measured)),
            "more accelerators": _mean(_more_accelerators(table, measured)),
            "beside another job": _mean(_beside(table, measured)),
            **_pairs_that_run(table, measured),
        }
        for name, table in tables.items()
        if name not in (ORACLE, BLIND)
    ]


def family_errors(seen: Rates, measured: Rates) -> list[dict[str, Any]]:
    """Return a row for each family of jobs: geometric means of seen over measured."""
    names = np.array(families(measured))
    between, more = _between_kinds(seen, measured), _more_accelerators(seen, measured)
    with np.errstate(divide="ignore", invalid="ignore"):
        true = measured.alone[:, 1] / measured.alone[:, 0]
    rows = []
    for name in sorted({*names}):
        own, fine = names == name, (names == name) & np.isfinite(true)
        rows.append(
            {
                "family": name,
                "measured between kinds": [float(true[fine].min()), float(true[fine].max())],
                "rates": _ratio(-log_errors(seen, measured)[own]),
                "between kinds": _ratio(-between[own]),
                "more accelerators": [_ratio(-more[own, kind]) for kind in range(2)],
                "kept beside another": _ratio(-_beside(seen, measured)[own]),
            }
        )
    return rows


def goodput_errors(tables: Mapping[str, StepTable]) -> list[dict[str, Any]]:
    """Return a row for each table that predicts.

    Errors are means of |ln(seen / measured)|: of steps, of the best goodput on one accelerator of a
    kind beside one of the first, of more accelerators beside one of the same kind; and the share of
    the goodput that the batch sizes which are believed to be best give away.
    """
    measured = tables[ORACLE]
    true = measured.goodput()
    single = measured.accelerators == 1
    clusters = np.array([one.cluster for one in measured.configurations])
    rows = []
    for name, table in tables.items():
        if name in (ORACLE, BLIND):
            continue
        seen = table.goodput()
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.log(seen.max(axis=2) / true.max(axis=2))
            steps_off = np.log(table.step_time_s / measured.step_time_s)
            chosen = np.take_along_axis(true, seen.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
        alone = {cluster: off[:, single & (clusters == cluster)] for cluster in clusters}
        first = alone[clusters[0]]
        more = np.concatenate(
            [off[:, [at]] - alone[one] for at, one in enumerate(clusters)], axis=1
        )
        rows.append(
            {
                "table": name,
                "rates": _mean(steps_off),
                "between kinds": _mean((off - first)[:, single][:, 1:]),
                "more accelerators": _mean(more[:, ~single]),
                "lost by batch size": float(1 - np.mean(chosen / true.max(axis=2))),
            }
        )
    return rows


def application_errors(seen: StepTable, measured: StepTable) -> list[dict[str, Any]]:
    """Return a row for each application: the goodput beside one of the first kind, both tables.

    Each is that of the best batch on one accelerator of every kind, and on the most.
    """
    rows = []
    clusters = [one.cluster for one in measured.configurations]
    first = [clusters.index(one) for one in dict.fromkeys(clusters)]
    last = [len(clusters) - 1 - clusters[::-1].index(one) for one in dict.fromkeys(clusters)]
    for row, name in enumerate(measured.applications):
        best = [table.goodput()[row].max(axis=1) for table in (seen, measured)]
        rows.append(
            {
                "application": name,
                "kinds": list(dict.fromkeys(clusters)),
                "one seen": (best[0][first] / best[0][0]).tolist(),
                "one measured": (best[1][first] / best[1][0]).tolist(),
                "most seen": (best[0][last] / best[0][first]).tolist(),
                "most measured": (best[1][last] / best[1][first]).tolist(),
            }
        )
    return rows


def _between_kinds(seen: Rates, measured: Rates) -> FloatArray:
    off = log_errors(seen, measured)
    return off[:, 1:] - off[:, :1]


def _more_accelerators(seen: Rates, measured: Rates) -> FloatArray:
    off = log_errors(seen, measured)
    alone = {key[0]: off[row] for row, key in enumerate(seen.keys) if key[1] == 1}
    return np.stack(
        [
            off[row] - alone[label] if size > 1 else np.full(off.shape[1], np.nan)
            for row, (label, size) in enumerate(seen.keys)
        ]
    )


def _kept(table: Rates) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(table.beside / table.alone[:, None])


def _beside(seen: Rates, measured: Rates) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(_kept(measured) / _kept(seen))
    return np.where(np.isfinite(off), off, np.nan)


def _pairs_that_run(seen: Rates, measured: Rates) -> dict[str, float | None]:
    """Return the shares of pairs of which a table says wrongly that they run, or do not."""
    asked = np.isfinite(measured.beside)
    runs, said = measured.beside[asked] > 0, np.nan_to_num(seen.beside[asked]) > 0
    return {
        "of pairs that run, said not to": float(np.mean(~said[runs])) if runs.any() else None,
        "of pairs that do not, said to": None if runs.all() else float(np.mean(said[~runs])),
    }


def _mean(off: FloatArray) -> float | None:
    known = np.abs(off[np.isfinite(off)])
    return float(known.mean()) if len(known) else None


def _ratio(off: FloatArray) -> float | None:
    known = off[np.isfinite(off)]
    return float(np.exp(known.mean())) if len(known) else None
