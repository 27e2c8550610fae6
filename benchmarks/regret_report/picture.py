"""Draw how much every policy loses, as an SVG that needs no library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from regret_report.results import PolicyResults
from regret_report.seen_rates import BLIND, ORACLE

_WIDTH, _LEFT, _ROW, _GAP = 720, 190, 16, 34
_COLOURS = {BLIND: "#b5b5b5"}
_PREDICTED = "#3572b0"


def picture(policies: Sequence[PolicyResults]) -> str:
    """Return bars of the ratio to the oracle, a group for each policy, with their spread."""
    most = max(sum(one.beside(name)) for one in policies for name in one.judged_h)
    scale = (_WIDTH - _LEFT - 60) / most
    parts, top = [], 10
    for policy in policies:
        parts += _group(policy, top, scale)
        top += _GAP + _ROW * (len(policy.judged_h) - 1)
    parts.append(
        f'<line x1="{_LEFT + scale:.1f}" x2="{_LEFT + scale:.1f}" y1="10" y2="{top - 8}" '
        'stroke="#c03028" stroke-dasharray="4 3"/>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" '
            f'viewBox="0 0 {_WIDTH} {top}" font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _group(policy: PolicyResults, top: int, scale: float) -> Iterator[str]:
    yield f'<text x="8" y="{top + 12}" font-weight="bold">{escape(policy.title)}</text>'
    names = [name for name in policy.judged_h if name != ORACLE]
    for at, name in enumerate(names):
        ratio, spread = policy.beside(name)
        y = top + 20 + at * _ROW
        low, high = (_LEFT + scale * max(0.0, ratio + sign * spread) for sign in (-1, 1))
        yield f'<text x="{_LEFT - 6}" y="{y + 10}" text-anchor="end">{escape(name)}</text>'
        yield (
            f'<rect x="{_LEFT}" y="{y}" width="{scale * ratio:.1f}" height="{_ROW - 4}" '
            f'fill="{_COLOURS.get(name, _PREDICTED)}"/>'
        )
        yield (
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 6}" y2="{y + 6}" stroke="black"/>'
            f'<text x="{high + 5:.1f}" y="{y + 10}">{ratio:.2f}</text>'
        )
