"""The page on small screens and in both colour schemes: sizes and contrasts, computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe import findings
from chromium import Tab
from page_looks import contrast, faint, nameless, too_wide

Shown = Callable[..., Tab]


def unfold(tab: Tab) -> None:
    """Open all that is folded, and wait until it is filled: that is done in tasks of their own."""
    tab.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    tab.wait("document.querySelectorAll('.below table').length >= 5")
    tab.wait(
        "[...document.querySelectorAll('.below details:not([hidden]) div')].every("
        "(d) => d.parentElement.localName != 'details' || d.hasChildNodes())"
    )
    tab.settle()


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    # The grey that is known to be the lightest on white.
    assert contrast([118, 118, 118], [255, 255, 255]) == pytest.approx(4.54, abs=0.01)


def test_everything_can_be_made_out(shown: Shown, tab: Tab) -> None:
    shown("?versus=T4,T5000&kwargs={}")
    unfold(tab)
    for dark in (False, True):
        assert not faint(tab, dark=dark, least=300)


def test_nothing_scrolls_sideways(shown: Shown, tab: Tab) -> None:
    for width in (360, 768, 1180):
        tab.look(width=width, height=780)
        if width == 360:
            shown("?on=2x(8xH100-SXM5-80GB)@ib-400g&kwargs={}")
            unfold(tab)
        tab.settle()
        assert too_wide(tab, width) == []
        # Pictures are as wide as their frame, so that their text keeps its size.
        scales = tab.run(
            "[...document.querySelectorAll('.figure svg')].map("
            "(e) => e.getBoundingClientRect().width / e.viewBox.baseVal.width)"
        )
        assert all(0.97 < scale < 1.03 for scale in scales), scales


def test_an_error_fits_a_small_screen(tab: Tab, shown: Shown) -> None:
    tab.look(width=360, height=780)
    shown()
    tab.click("#model")
    tab.write("timm/" + "x" * 200)
    tab.press("Enter")
    tab.wait("document.querySelector('#model-error')")
    assert tab.run("document.documentElement.scrollWidth") <= 360


def test_every_control_has_a_name_and_is_large_enough(shown: Shown, tab: Tab) -> None:
    shown()
    assert nameless(tab) == []
    # WCAG 2.2, 2.5.8: at least 24 pixels each way, links in a text apart.
    small = tab.run(
        "[...document.querySelectorAll('button, input:not([type=radio]), select')]"
        ".filter((e) => e.checkVisibility() && !e.closest('.error'))"
        ".filter((e) => Math.min(e.offsetWidth, e.offsetHeight) < 24)"
        ".map((e) => e.outerHTML)"
    )
    assert small == []
    assert tab.run("document.documentElement.lang") == "en"
    heads = tab.run("[...document.querySelectorAll('h1, h2, h3')].map((e) => e.tagName)")
    assert heads[0] == "H1" and heads.count("H1") == 1


def test_axe_finds_nothing(shown: Shown, tab: Tab) -> None:
    shown("?kwargs={}&versus=T4,T5000")
    unfold(tab)
    for width, dark in ((360, False), (800, True), (1280, False)):
        tab.look(width=width, height=900, dark=dark)
        tab.settle()
        assert findings(tab) == []
    tab.click("#config-open")
    tab.wait("document.querySelector('#config-dialog').open")
    assert findings(tab) == []
