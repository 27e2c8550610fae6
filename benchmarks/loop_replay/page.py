"""Write docs/closed-loop.md and its picture from the results of replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_report.markdown import percent, table
from loop_replay.loop import FIRST_LEARNED, FIT_AFTER, KEPT_BACK_OF
from loop_replay.picture import picture
from loop_replay.replay import BOTH, EVIDENCE, LEARNED, NOTHING, WAYS
from loop_replay.results import LEARNING, Results, after, mean_error, on_device

_TITLES = {
    "devices": "Devices that arrive one after another",
    "releases": "One release of PyTorch after the other (timm, RTX 3090, inference and training)",
    "software": "A newer PyTorch on a known device (timm, RTX 4090, inference)",
    "placements": "Placements of scripts on several accelerators (Sia, training)",
}
#: Arrivals of a device below which what comes after the first ones says little.
_LEAST_AFTER = 5
#: Of the error that there was at the start, to which it should come.
_HALF = 0.5


def write_page(results: Results, path: Path) -> None:
    """Write the page, and the picture beside it.

    Parameters
    ----------
    path : Path
        ``docs/closed-loop.md``.
    """
    image = path.with_suffix(".svg")
    streams = [(name, results.streams[name]) for name in _TITLES if name in results.streams]
    image.write_text(picture([(_TITLES[name], stream) for name, stream in streams]))
    lines = [*_head(image.name)]
    for name, stream in streams:
        lines += _stream(name, stream)
    path.write_text("\n".join(lines).rstrip() + "\n")


def _head(image: str) -> Iterator[str]:
    yield "# The closed loop"
    yield ""
    yield "Written by `python benchmarks/closed_loop.py`; not edited by hand."
    yield ""
    yield (
        "Published measurements come in the order in which a cluster would see them. Each is asked "
        "about before it is observed or learned from, in four ways: by the model at the start "
        f"(*{NOTHING}*); by it, corrected by all observations so far through the posterior of "
        f"[ADR 36](adr/0036-one-posterior.md), as the service answers (*{EVIDENCE}*); by versions "
        f"that learned from records (*{LEARNED}*); and by these versions, corrected (*{BOTH}*)."
    )
    yield ""
    yield (
        f"A fit to all that is known by then runs whenever {FIT_AFTER} records have come since the "
        "last one, as PERFMODEL_RETRAIN_AFTER_RECORDS lets it. Between fits the quick path "
        f"([ADR 44](adr/0044-the-quick-path.md)) takes in what came of a device: {FIRST_LEARNED} "
        "records, and whenever they have doubled. Residuals of *learned* go through the detectors "
        "of [drift.md](drift.md): an alarm about a device starts the quick path for it at once, "
        "one about anything else a fit. One arrival of "
        f"{KEPT_BACK_OF} is never learned from; on those, and on steps of the start that were held "
        "out, the gate compares every candidate with the version that serves. All observations "
        "come from one reporter: those of other jobs on a device move an "
        "answer by 5 % at most, whatever they say. The model at the start is of the short form of "
        "`make bench-accuracy`, with a part of timm's networks; it has seen no arriving record."
    )
    yield ""
    yield f"![Errors over arrivals]({image})"
    yield ""
    yield (
        "Mean error of the last 25 answers. Grey lines: another device. Dots: retrainings, red "
        "where the gate refused, larger where they were fits."
    )
    yield ""


def _stream(name: str, stream: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {_TITLES[name]}"
    yield ""
    retrainings = stream["retrainings"]
    refused = [one for one in retrainings if not one["accepted"]]
    alarms = stream.get("alarms", [])
    fits = sum(not one["device"] for one in retrainings)
    yield (
        f"{len(stream['devices'])} arrivals, {len(retrainings)} retrainings of which {fits} were "
        f"fits, {len(refused)} refused by the gate, {len(alarms)} alarms."
    )
    yield ""
    if stream.get("note"):
        yield stream["note"]
        yield ""
    if name == "placements":
        yield (
            "These are scripts on several accelerators; no version learns from them, so that "
            f"*{LEARNED}* is *{NOTHING}* and *{BOTH}* is *{EVIDENCE}*."
        )
        yield ""
    yield from _by_count(stream)
    yield from _by_device(stream)
    if len(set(stream["devices"])) == 1:
        yield from _by_release(stream)
    yield from _alarms(alarms)
    for one in refused:
        what = f"records of {one['device']}" if one["device"] else "records, a fit"
        yield (
            f"Refused after {one['after']} arrivals, {one['records']} {what} "
            f"({one['trigger']}): {'; '.join(one['findings'][:2])}."
        )
        yield ""


def _percent(value: float) -> str:
    return percent(None if np.isnan(value) else value)


def _ratio(value: float, beside: float) -> str:
    return "-" if np.isnan(value / beside) else f"{value / beside:.2f}"


def _by_count(stream: Mapping[str, Any]) -> Iterator[str]:
    """Errors by how much of its device had come before."""
    yield "Errors by what had come of the device before, over all arrivals:"
    yield ""
    spans = [(0, 4), (4, 10), (10, LEARNING), (LEARNING, None)]
    rows = []
    for first, end in spans:
        chosen = after(stream, first)
        if end is not None:
            chosen &= ~after(stream, end)
        if chosen.any():
            word = f"{first} and more" if end is None else f"{first} to {end - 1}"
            means = [_percent(mean_error(stream, way, chosen)) for way in WAYS]
            rows.append([word, str(int(chosen.sum())), *means])
    yield from table(["before", "arrivals", *WAYS], rows)


def _by_release(stream: Mapping[str, Any]) -> Iterator[str]:
    """Errors under each release of the one device, over all its arrivals and the later half."""
    yield "Errors under each release, and over the later half of its arrivals:"
    yield ""
    releases = np.array(stream["releases"])
    rows = []
    for release in dict.fromkeys(stream["releases"]):
        own = np.flatnonzero(releases == release)
        later = np.isin(np.arange(len(releases)), own[len(own) // 2 :])
        means = [mean_error(stream, way, later) for way in (NOTHING, LEARNED)]
        rows.append(
            [
                release, str(len(own)),
                *[_percent(mean_error(stream, way, releases == release)) for way in WAYS],
                *[_percent(one) for one in means], _ratio(means[1], means[0]),
            ]
        )  # fmt: skip
    heads = ["release", "arrivals", *WAYS]
    yield from table([*heads, f"later {NOTHING}", f"later {LEARNED}", "ratio"], rows)


def _alarms(alarms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tell what drifted, from which arrival to which."""
    if not alarms:
        return
    yield "Alarms:"
    yield ""
    rows = [
        [
            one["about"], f"{100 * np.expm1(one['shift']):+.0f} %", str(one["opened"]),
            str(one["ended"] or "-"), ", ".join(one["also"]) or "-",
        ]
        for one in alarms
    ]  # fmt: skip
    yield from table(
        ["about", "steps take", "raised after", "ended after", "explained nearly as well by"], rows
    )


def _by_device(stream: Mapping[str, Any]) -> Iterator[str]:
    """Errors on each device after its first arrivals, in the order of their coming."""
    yield (
        f"Errors on each device after its first {LEARNING} arrivals (after half of them where "
        f"fewer than {LEARNING + _LEAST_AFTER} came):"
    )
    yield ""
    rows: list[list[str]] = []
    left: list[tuple[int, float]] = []
    for device in dict.fromkeys(stream["devices"]):
        own = on_device(stream, device)
        count = int(own.sum())
        first = LEARNING if count >= LEARNING + _LEAST_AFTER else count // 2
        chosen = own & after(stream, first)
        means = {way: mean_error(stream, way, chosen) for way in WAYS}
        known = bool(np.array(stream["known"])[own].all())
        left.append((first, means[BOTH] / means[NOTHING]))
        rows.append(
            [
                device + (" (known)" if known else ""), f"{first} of {count}",
                *[_percent(means[way]) for way in WAYS],
                _ratio(means[LEARNED], means[NOTHING]), _ratio(means[BOTH], means[NOTHING]),
            ]
        )  # fmt: skip
    heads = ["device", "after", *WAYS, f"{LEARNED} / {NOTHING}", f"both / {NOTHING}"]
    yield from table(heads, rows)
    known_shares = [(first, share) for first, share in left if not np.isnan(share)]
    if known_shares:
        yield (
            f"With {BOTH} at most half of the error is left on {_halved(known_shares)} devices, on "
            f"{_halved([one for one in known_shares if one[0] == LEARNING])} of those with "
            f"{LEARNING} arrivals before; more than at the start on "
            f"{sum(share > 1 for _, share in known_shares)}."
        )
        yield ""


def _halved(shares: Sequence[tuple[int, float]]) -> str:
    """Say of how many devices half of the error is left, or less."""
    return f"{sum(share <= _HALF for _, share in shares)} of {len(shares)}"
