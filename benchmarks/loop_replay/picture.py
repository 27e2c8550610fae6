"""Draw errors over arrivals, as an SVG that needs no library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from loop_replay.replay import BOTH, EVIDENCE, LEARNED, NOTHING
from loop_replay.results import errors

from perfmodel.features.arrays import FloatArray

_WIDTH, _LEFT, _RIGHT, _HEIGHT, _GAP = 760, 56, 20, 190, 60
_COLOURS = {NOTHING: "#999999", EVIDENCE: "#c07a28", LEARNED: "#3572b0", BOTH: "#2c7a3f"}
#: Arrivals over which a line is averaged.
_WINDOW = 25
#: Errors beyond this are drawn at the edge.
_MOST = 0.6


def picture(streams: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a panel for each stream: the mean error of the last arrivals, by way."""
    parts: list[str] = []
    top = 20
    for title, stream in streams:
        parts += _panel(title, stream, top)
        top += _HEIGHT + _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" '
            f'viewBox="0 0 {_WIDTH} {top}" font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *_legend(),
            *parts,
            "</svg>",
            "",
        ]
    )


def _legend() -> Iterator[str]:
    for at, (way, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 170 * at
        yield f'<line x1="{x}" x2="{x + 20}" y1="10" y2="10" stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{x + 26}" y="14">{escape(way)}</text>'


def _panel(title: str, stream: Mapping[str, Any], top: int) -> Iterator[str]:
    bottom, count = top + 20 + _HEIGHT, len(stream["devices"])

    def x(at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / max(count - 1, 1)

    def y(error: float) -> float:
        return bottom - _HEIGHT * min(error, _MOST) / _MOST

    yield f'<text x="{_LEFT}" y="{top + 14}" font-weight="bold">{escape(title)}</text>'
    for tick in np.arange(0.0, _MOST + 0.01, 0.2):
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            f'stroke="#dddddd"/><text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">'
            f"{100 * tick:.0f} %</text>"
        )
    devices = stream["devices"]
    for at in range(1, count):
        if devices[at] != devices[at - 1]:
            yield (
                f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top + 20}" y2="{bottom}" '
                'stroke="#eeeeee"/>'
            )
    for one in stream["retrainings"]:
        colour = _COLOURS[LEARNED] if one["accepted"] else "#c03028"
        size = 3 if one["device"] else 5
        yield f'<circle cx="{x(one["after"]):.1f}" cy="{bottom}" r="{size}" fill="{colour}"/>'
    for way, colour in _COLOURS.items():
        line = _smoothed(errors(stream, way))
        points = [f"{x(i):.1f},{y(e):.1f}" for i, e in enumerate(line) if not np.isnan(e)]
        yield (
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            'stroke-width="1.6"/>'
        )
    yield f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 16}" text-anchor="end">{count} arrivals</text>'


def _smoothed(values: FloatArray) -> list[float]:
    """Return the mean of the last answers before each arrival; NaN where there are none."""
    found = []
    for at in range(len(values)):
        last = values[max(0, at - _WINDOW + 1) : at + 1]
        last = last[~np.isnan(last)]
        found.append(float(last.mean()) if len(last) else float("nan"))
    return found
