"""What the page is made of, and how it is sent; no browser needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from guarded_service import Guarded, guarded_service

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.zoo.references.reference import reference_names
from service.routes.page import FOLDER, read_page

ROOT = Path(__file__).resolve().parents[3]

guarded = pytest.fixture(scope="module")(guarded_service)


@pytest.fixture
def anybody(guarded: Guarded) -> TestClient:
    """A caller without a key."""
    return guarded.client


def named_files() -> list[str]:
    return re.findall(r'(?:href|src)="(static/[^"]+)"', read_page().index.decode())


def test_the_page_and_its_files_need_no_key(anybody: TestClient) -> None:
    assert anybody.get("/").status_code == 200
    assert len(named_files()) >= 4
    for path in named_files():
        assert anybody.get(f"/{path}").status_code == 200, path
    assert anybody.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
    # What it asks for needs one.
    assert anybody.get("/v1/accelerators").status_code == 401


def test_every_module_that_is_imported_is_there() -> None:
    page = read_page()
    for name, file in page.files.items():
        for imported in re.findall(r'from "(\./|\.\./)([^"]+)"', file.body.decode()):
            folder = Path(name).parent if imported[0] == "./" else Path(name).parent.parent
            assert (folder / imported[1]).as_posix() in page.files, f"{name}: {imported}"


def test_files_are_kept_for_good_and_the_page_is_not(anybody: TestClient) -> None:
    page = anybody.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = anybody.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    script = anybody.get("/" + next(name for name in named_files() if name.endswith(".js")))
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-type"].startswith("text/javascript")
    # Another host may be a version ahead: its files are answered, but not kept.
    other = anybody.get("/static/0000/js/app.js")
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")


def test_the_version_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("VERSION")
    (tmp_path / "a.js").write_text("1")
    before = read_page(tmp_path)
    assert before.index == before.version.encode()
    (tmp_path / "a.js").write_text("2")
    assert read_page(tmp_path).version != before.version


def test_nothing_but_its_own_files_may_run(anybody: TestClient) -> None:
    headers = anybody.get("/").headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect", "img")} == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    html = read_page().index.decode()
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", html)


def test_it_names_no_other_host() -> None:
    page = read_page()
    for name, body in [("index", page.index), *((n, f.body) for n, f in page.files.items())]:
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", body.decode()))
        # Names of XML name spaces are no addresses.
        assert hosts <= {"http://www.w3.org"}, name


def test_it_is_small(anybody: TestClient) -> None:
    # 200 kB before compression is what a slow line loads in about two seconds.
    page = read_page()
    assert len(page.index) + sum(len(file.body) for file in page.files.values()) < 200_000
    sent = anybody.get("/", headers={"Accept-Encoding": "gzip"})
    assert sent.headers["content-encoding"] == "gzip"


def test_a_script_is_asked_for_a_key_by_the_page_alone(anybody: TestClient) -> None:
    # Basic would make the browser open a dialog of its own.
    script = anybody.get("/v1/models", headers={"Sec-Fetch-Dest": "empty"})
    assert script.headers.get_list("www-authenticate") == ['Bearer realm="perfmodel"']
    navigation = anybody.get("/docs", headers={"Sec-Fetch-Dest": "document"})
    assert len(navigation.headers.get_list("www-authenticate")) == 2


def names_in(constant: str) -> Iterator[str]:
    text = (FOLDER / "js" / "asking" / "names.js").read_text()
    block = re.search(rf"export const {constant} = \[(.*?)\]", text, re.DOTALL)
    assert block is not None
    yield from re.findall(r'"([^"]+)"', block[1])


def test_suggested_names_are_known() -> None:
    catalog = Catalog.default()
    for name in names_in("COMPARED"):
        assert catalog.get(name).name == name
    for name in names_in("NETWORKS"):
        assert parse_placement(f"2x(8xA100)@{name}").network is not None
    zoo = {name.removeprefix("zoo/") for name in names_in("MODELS") if name.startswith("zoo/")}
    assert zoo == {name for name in reference_names() if not name.startswith("operator-")}


def test_the_files_are_packed() -> None:
    kinds = {path.suffix for path in FOLDER.rglob("*") if path.is_file()}
    assert kinds == {".html", ".css", ".js", ".svg"}
    assert '"page/**/*"' in (ROOT / "pyproject.toml").read_text()
