"""One service and one browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from asking import Service
from chromium import Tab, browser
from page_service import make_app, running_service

from service.access.key_file import KeyFile
from service.access.keys import new_key


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(make_app(tmp_path_factory.mktemp("page"))) as service:
        yield service


@pytest.fixture(scope="session")
def token_and_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    """A service that wants a key, and the key."""
    folder = tmp_path_factory.mktemp("guarded")
    token, key = new_key("page", ["predict"], created_at="2026-01-01T00:00:00+00:00")
    KeyFile(folder / "keys.json").add(key)
    with running_service(make_app(folder)) as service:
        yield token, service


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(chrome: Tab) -> Iterator[Tab]:
    """The page of the browser; whatever a test does, nothing may go wrong in its console."""
    # Nothing that the page of an earlier test still does is taken for this one's.
    chrome.open("about:blank")
    chrome.look()
    chrome.requests.clear()
    chrome.complaints.clear()
    yield chrome
    # Chromium notes itself what the service refused, and what could not be reached.
    noted = "Failed to load resource"
    assert not [said for said in chrome.complaints if not said.startswith(noted)]


@pytest.fixture
def shown(tab: Tab, service: Service) -> Callable[..., Tab]:
    """Open the page with a question in its address and wait for all pictures."""

    def open_page(query: str = "", *, of: Service = service) -> Tab:
        tab.open(f"{of.url}/{query}")
        tab.wait("document.querySelector('#throughput') && document.querySelector('#factors svg')")
        tab.wait("document.querySelector('#curve svg') && document.querySelector('#compare svg')")
        tab.wait("document.querySelector('#accuracy .canvas').childElementCount")
        tab.wait("document.querySelector('#serving').textContent")
        tab.wait("!document.querySelector('.waiting')")
        tab.settle()
        return tab

    return open_page
