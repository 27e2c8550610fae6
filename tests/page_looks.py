"""What can be seen of a page, computed: contrasts, widths and names of controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chromium import Tab

_COLOURS = Path(__file__).parent.joinpath("service", "page", "colours.js").read_text()

#: Least ratios of WCAG 2.2.
_LEAST = {"text": 4.5, "mark": 3.0}


def luminance(colour: list[int]) -> float:
    """Return the relative luminance of WCAG 2.2."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
              for c in colour[:3]]  # fmt: skip
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[int], other: list[int]) -> float:
    """Return the ratio of WCAG 2.2, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def faint(tab: Tab, *, dark: bool, least: int) -> set[str]:
    """Return what cannot be made out in a colour scheme, of at least so many texts and marks."""
    tab.look(dark=dark)
    tab.settle()
    colours: list[list[Any]] = tab.run(_COLOURS)
    assert {kind for kind, *_ in colours} == {"text", "mark"}
    assert len(colours) > least
    # It follows the scheme: the ground is dark in the dark one.
    assert (luminance(colours[0][3]) < 0.1) is dark
    return {
        f"{kind} {name}: {contrast(colour, ground):.2f}"
        for kind, name, colour, ground in colours
        if contrast(colour, ground) < _LEAST[kind]
    }


def too_wide(tab: Tab, width: int) -> list[str]:
    """Return what reaches beyond a width of the screen."""
    assert tab.run("document.documentElement.scrollWidth") <= width
    found: list[str] = tab.run(
        "[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()"
        "&& !e.closest('.scroll, pre, svg, .visually-hidden, .skip')"
        f"&& e.getBoundingClientRect().right > {width} + 0.5)"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    return found


def nameless(tab: Tab) -> list[str]:
    """Return the controls that have no name."""
    found: list[str] = tab.run(
        "[...document.querySelectorAll('button, input, select, a, summary, [tabindex=\"0\"]')]"
        ".filter((e) => e.checkVisibility() && !(e.labels?.length || e.getAttribute('aria-label')"
        " || e.textContent.trim())).map((e) => e.outerHTML)"
    )
    return found
