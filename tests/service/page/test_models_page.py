"""The view of versions, in a real browser on a real service."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from chromium import Tab
from page_looks import faint, nameless, too_wide
from page_service import (
    fill_alarm,
    fill_retrainings,
    fill_shadow,
    make_app_with_versions,
    observe_drift,
    running_service,
)
from trained_version import two_versions
from waiting import until

from service.access.key_file import KeyFile
from service.access.keys import new_key

OLD, NEW = "default/20261101T080000Z-11d0c2a9", "default/20261121T125755Z-aaf07f3d"

Open = Callable[..., Tab]


def decide(service: Service, path: str, **headers: str) -> Any:
    return service.ask(f"/v1/models/{path}", method="POST", **headers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    two_versions(tmp_path / "models")
    return tmp_path


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    """A service over two versions: the older serves, the newer is its shadow."""
    with running_service(make_app_with_versions(folder)) as service:
        decide(service, f"{OLD}/promote?why=better%20on%20T4")
        decide(service, f"{NEW}/shadow?why=look")
        fill_shadow(f"sqlite:///{folder}/state.db", NEW, OLD)
        yield service


@pytest.fixture
def shown(tab: Tab) -> Open:
    def open_page(service: Service, query: str = "") -> Tab:
        tab.open(f"{service.url}/?view=models{query}")
        settled(tab)
        return tab

    return open_page


def settled(tab: Tab) -> None:
    """Wait until nothing waits any more."""
    tab.wait("document.querySelector('#model-versions tbody, #model-versions .note')")
    tab.wait("document.querySelector('#shadow .canvas').childElementCount")
    tab.wait("document.querySelector('#decisions table, #decisions .note')")
    tab.wait("!document.querySelector('.waiting')")
    tab.settle()


def rows(tab: Tab, selector: str) -> list[list[str]]:
    """Return the texts of the cells of a table."""
    found: list[list[str]] = tab.run(
        f"[...document.querySelectorAll('{selector} tbody tr')].map("
        "(row) => [...row.cells].map((cell) => cell.innerText))"
    )
    return found


def test_versions_scores_data_and_decisions_are_shown(shown: Open, service: Service) -> None:
    tab = shown(service)
    assert not tab.run("document.querySelector('#asking').checkVisibility()")
    listed = rows(tab, "#model-versions")
    assert [row[1:3] for row in listed] == [
        ["shadow", NEW.removeprefix("default/")], ["serving", OLD.removeprefix("default/")],
    ]  # fmt: skip
    # The shadow is chosen by itself, and both are beside each other in the pictures.
    for picture in ("scores", "sources"):
        words = tab.run(f"document.querySelector('#{picture} svg').textContent")
        assert f"{OLD.removeprefix('default/')} (serves)" in words
        assert NEW.removeprefix("default/") in words
    manifest = service.ask(f"/v1/models/{NEW}")["manifest"]
    error = manifest["scores"]["predictors"]["ensemble"]["mape"]
    tab.click("#scores .tools button:last-child")
    saved = list(csv.DictReader(io.StringIO(tab.saved("perfmodel-scores.csv"))))
    assert float(saved[0]["value_1"]) == pytest.approx(error)
    decided = rows(tab, "#decisions")
    assert [row[2:4] + row[5:] for row in decided] == [
        ["judge", "shadow", "look"], ["promote", "serving", "better on T4"],
    ]  # fmt: skip


def test_the_keyboard_stays_where_it_is_when_a_panel_is_drawn_anew(
    shown: Open, service: Service
) -> None:
    tab = shown(service)
    tab.run("document.querySelector('[name=version][value$=aaf07f3d]').focus()")
    # Another version is shown, for which the table and what can be decided are made anew.
    tab.press("ArrowDown")
    tab.wait(f"new URLSearchParams(location.search).get('version') === {OLD!r}")
    tab.settle()
    assert tab.run("document.activeElement.value") == OLD
    tab.run("document.querySelector('[data-verb=rollback]').focus()")
    tab.run("window.before = document.activeElement")
    decide(service, f"{NEW}/refuse?why=no")
    tab.run("document.querySelector('[name=version]').dispatchEvent(new Event('change'))")
    tab.settle()
    assert tab.run("document.activeElement.dataset.verb") == "rollback"
    assert not tab.run("document.activeElement === window.before")


def test_a_shadow_is_shown_as_the_service_tells_it(shown: Open, service: Service) -> None:
    report = service.ask(f"/v1/models/{NEW}/shadow")
    tab = shown(service)
    [all_of_them, *groups] = report["groups"]
    words = tab.text("#shadow .caption")
    assert f"{all_of_them['compared']} questions" in words and "It fails on 1" in words
    names = tab.run("document.querySelector('#shadow svg').textContent")
    devices = [one["name"] for one in groups if one["dimension"] == "device"]
    assert len(devices) == 3 and all(name in names for name in devices)
    tab.run("document.querySelector('#shadow-by').focus()")
    tab.press("ArrowDown")
    tab.wait("document.querySelector('#shadow svg').textContent.includes('inference')")
    # Marks can be read without a pointer.
    tab.run("document.querySelector('#shadow svg').focus()")
    tab.press("ArrowRight")
    assert "all questions" in tab.text("#shadow .tip")
    tables = tab.run("[...document.querySelectorAll('#shadow h3')].map((one) => one.innerText)")
    assert tables == [
        "Who was right", "Questions that the shadow alone fails on", "The most different",
        "Measured, farthest from the shadow first",
    ]  # fmt: skip


def ask_to_promote(tab: Tab) -> None:
    """Open the dialog by keyboard; a panel that was drawn anew has lost the focus."""

    def opened() -> bool:
        if not tab.run("document.querySelector('#decision').open"):
            tab.run("document.querySelector('[data-verb=promote]').focus()")
            tab.press("Enter")
        return bool(tab.run("document.querySelector('#decision').open"))

    until(opened, every_s=0.5)


def test_a_version_is_promoted_and_rolled_back_by_keyboard(shown: Open, service: Service) -> None:
    tab = shown(service)
    ask_to_promote(tab)
    assert tab.run("document.activeElement.id") == "decision-why"
    tab.press("Escape")
    tab.wait("!document.querySelector('#decision').open")
    assert service.ask("/v1/models")["serving"] == OLD
    ask_to_promote(tab)
    # Closed and opened again before the page is told that it was closed.
    tab.run(
        "document.querySelector('#decision').close();"
        "document.querySelector('[data-verb=promote]').click()"
    )
    tab.settle()
    tab.write("a quarter better")
    tab.press("Enter")
    tab.wait("document.querySelector('#decisions').innerText.includes('a quarter better')")
    assert service.ask("/v1/models")["serving"] == NEW
    settled(tab)
    assert [row[1] for row in rows(tab, "#model-versions")] == ["serving", "retired"]
    # It serves: there is nothing beside it.
    assert "serves" in tab.text("#shadow .canvas")
    tab.click("[data-verb=rollback]")
    tab.wait("document.querySelector('#decision').open")
    tab.click("#decision-do")
    tab.wait("document.querySelector('#decisions').innerText.includes('rollback')")
    assert service.ask("/v1/models")["serving"] == OLD


def test_retrainings_drift_and_alarms_are_shown(
    shown: Open, service: Service, folder: Path
) -> None:
    database = f"sqlite:///{folder}/state.db"
    observe_drift(service, count=4)
    fill_retrainings(database)
    fill_alarm(database)
    tab = shown(service)
    tab.wait("document.querySelectorAll('#retrainings .entries > li').length == 2")
    running, refused = tab.run(
        "[...document.querySelectorAll('#retrainings .entries > li')].map((one) => one.innerText)"
    )
    assert "running" in running and "fold 3 of 5" in running and "40 %" in running
    assert tab.run("document.querySelector('#retrainings progress').value") == 0.4
    assert "off by 0.21" in refused
    tab.click("#retrainings summary")
    assert rows(tab, "#retrainings")[0][3:] == ["120", "3", "12 %", "21 %", "+5.0 % to +13 % *"]
    assert "*: too few to show" in tab.text("#retrainings details")
    # What was opened stays so while the panel is asked for again.
    asked = len([one for one in tab.requests if "/v1/retrain" in one])
    while len([one for one in tab.requests if "/v1/retrain" in one]) == asked:
        tab.settle()
    tab.wait("document.querySelector('#retrainings details').open")
    tab.wait("document.querySelector('#drift svg')")
    drift = service.ask("/v1/drift")
    assert f"{drift['compared']} observations compared" in tab.text("#drift .caption")
    alarm = tab.text("#drift .alarms")
    # exp(0.4) - 1.
    assert "T4" in alarm and "49 % slower" in alarm and "perfmodel retrain --why T4" in alarm


def test_another_version_is_chosen_and_stays_in_the_address(shown: Open, service: Service) -> None:
    tab = shown(service)
    tab.click(f"input[value='{OLD}']")
    tab.wait("document.querySelector('#shadow .note')")
    assert "(serves)" in tab.run("document.querySelector('#scores svg').textContent")
    address = tab.run("location.href")
    tab.open(address)
    settled(tab)
    assert tab.run("document.querySelector('input[name=version]:checked').value") == OLD


def test_a_caller_without_the_scope_is_told_so(tab: Tab, folder: Path) -> None:
    made = {scope: new_key(scope, [scope], created_at="2026-01-01T00:00:00+00:00")
            for scope in ("predict", "admin")}  # fmt: skip
    for _, key in made.values():
        KeyFile(folder / "keys.json").add(key)
    with running_service(make_app_with_versions(folder)) as service:
        tab.open(f"{service.url}/?view=models")
        tab.wait("document.querySelector('#key-dialog').open")
        tab.write(made["predict"][0])
        tab.press("Enter")
        settled(tab)
        # What retrainings say is for administrators.
        tab.wait("document.querySelector('#retrainings .note')?.innerText.includes('admin')")
        tab.click(f"input[value='{OLD}']")
        tab.click("[data-verb=promote]")
        tab.wait("document.querySelector('#decision').open")
        tab.click("#decision-do")
        said = tab.wait(
            "document.querySelector('#model-versions .banner:not([hidden])')?.innerText"
        )
        assert "admin" in said
        admin = {"Authorization": f"Bearer {made['admin'][0]}"}
        assert service.ask("/v1/models", **admin)["serving"] == NEW
        # With a key that may, the same is done.
        tab.click("#model-versions .banner button")
        tab.wait("document.querySelector('#key-dialog').open")
        tab.write(made["admin"][0])
        tab.press("Enter")
        tab.wait("!document.querySelector('#key-dialog').open")
        tab.click("[data-verb=promote]")
        tab.wait("document.querySelector('#decision').open")
        tab.click("#decision-do")
        tab.wait("document.querySelector('#decisions').innerText.includes('promote')")
        assert service.ask("/v1/models", **admin)["serving"] == OLD
        tab.run("sessionStorage.clear()")
        # Whose questions are compared is told to administrators alone.
        fill_shadow(f"sqlite:///{folder}/state.db", NEW, OLD)
        predict = {"Authorization": f"Bearer {made['predict'][0]}"}
        shown_to = [service.ask(f"/v1/models/{NEW}/shadow", **key) for key in (predict, admin)]
        assert shown_to[0]["groups"] == shown_to[1]["groups"]
        for part in ("most_different", "failed", "observed"):
            assert (shown_to[0][part], bool(shown_to[1][part])) == ([], True)


def test_what_shadows_though_it_was_refused_is_promoted_by_force_alone(
    shown: Open, service: Service
) -> None:
    decide(service, f"{NEW}/refuse?why=worse%20on%20T4")
    decide(service, f"{NEW}/shadow?why=once%20more")
    tab = shown(service)
    tab.click(f"input[value='{NEW}']")
    tab.click("[data-verb=promote]")
    tab.wait("document.querySelector('#decision').open")
    tab.click("#decision-do")
    forced = "#model-versions .banner:not([hidden]) button"
    assert tab.wait(f"document.querySelector('{forced}')?.innerText") == "Promote all the same"
    assert service.ask("/v1/models")["serving"] == OLD
    tab.click(forced)
    tab.wait("document.querySelector('#decision').open")
    tab.click("#decision-do")
    until(lambda: service.ask("/v1/models")["serving"] == NEW)


def test_nothing_waits_for_a_service_that_is_gone(tab: Tab, folder: Path, shown: Open) -> None:
    shutil.rmtree(folder / "models")
    with running_service(make_app_with_versions(folder)) as service:
        shown(service)
        assert "no trained model" in tab.text("#model-versions").lower()
        assert tab.run("document.querySelector('.actions').childElementCount") == 0
    two_versions(folder / "models")
    with running_service(make_app_with_versions(folder)) as service:
        shown(service)
        tab.click(f"input[value='{OLD}']")
    tab.click("[data-verb=promote]")
    tab.wait("document.querySelector('#decision').open")
    tab.click("#decision-do")
    said = tab.wait("document.querySelector('#model-versions .banner:not([hidden])')?.innerText")
    assert "cannot be reached" in said
    tab.wait("!document.querySelector('.waiting')")


def test_it_can_be_made_out_and_nothing_scrolls_sideways(
    shown: Open, service: Service, folder: Path
) -> None:
    database = f"sqlite:///{folder}/state.db"
    fill_retrainings(database)
    fill_alarm(database)
    tab = shown(service)
    tab.wait("document.querySelectorAll('#retrainings .entries > li').length == 2")
    tab.wait("document.querySelector('#drift .entries > li')")
    tab.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for dark in (False, True):
        assert not faint(tab, dark=dark, least=150)
    for width in (360, 800, 1280):
        tab.look(width=width, height=780)
        tab.settle()
        assert too_wide(tab, width) == []
    assert nameless(tab) == []
