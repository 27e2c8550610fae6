"""What comes late, broken or too large, in a real Chromium."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from asking import Service
from chromium import Tab

Shown = Callable[..., Tab]

#: Lets the first answers of a path come after those that are asked for later.
LATE = """(() => { let late = %d; const ask = window.fetch; window.fetch = async (url, options) => {
  if (String(url).includes('%s') && late-- > 0) await new Promise((go) => setTimeout(go, 700));
  return ask(url, options);
}; })()"""

#: Answers a path with something else.
INSTEAD = """(() => { const ask = window.fetch; window.fetch = (url, options) =>
  String(url).includes('%s') ? Promise.resolve(%s) : ask(url, options); })()"""

#: A body that breaks off.
BROKEN = (
    "new Response(new ReadableStream({ pull(stream) { stream.error(new TypeError('gone')); } }))"
)


def rows_of(tab: Tab, name: str) -> list[dict[str, str]]:
    tab.click(f"#{name} .tools button:nth-child(2)")
    return list(csv.DictReader(io.StringIO(tab.saved(f"perfmodel-{name}.csv"), newline="")))


def settled(tab: Tab) -> None:
    """Wait until what was held back has come, if it comes."""
    tab.wait("new Promise((done) => setTimeout(() => done(true), 1000))")
    tab.wait("!document.querySelector('.waiting')")


def test_a_late_answer_does_not_stand_over_a_newer_one(shown: Shown) -> None:
    tab = shown("?on=T4&versus=A10G,L4,T4,L40S")
    tab.run(LATE % (1, "v1/curve"))
    for most in ("1024", "8"):
        tab.run(
            f"((e) => {{ e.value = '{most}'; e.dispatchEvent(new Event('change')); }})"
            "(document.querySelector('#most'))"
        )
    settled(tab)
    assert [row["count"] for row in rows_of(tab, "curve")] == ["1", "2", "4", "8"]
    # What is left out goes from what is asked now, not from what is still shown.
    tab.run(LATE % (2, "v1/matrix"))
    for name in ("L4", "L40S"):
        tab.run(f"document.querySelector('[aria-label=\"Leave {name} out\"]').click()")
    settled(tab)
    assert {row["accelerator"] for row in rows_of(tab, "compare")} == {"T4", "A10G"}
    assert "versus=A10G,T4&" in tab.run("location.hash")


def test_accuracy_of_another_accelerator_is_not_overwritten(shown: Shown) -> None:
    tab = shown("?on=T4")
    tab.run(
        "(() => { let asked = 0; const ask = window.fetch; window.fetch = async (url, options) => {"
        " if (!String(url).includes('v1/accuracy')) return ask(url, options);"
        " const left_out = ++asked;"
        " await new Promise((go) => setTimeout(go, left_out === 1 ? 700 : 0));"
        " options.signal?.throwIfAborted();"
        " return new Response(JSON.stringify({points: [], left_out, next: null})); }; })()"
    )
    tab.run(
        "((e) => { for (const _ of [1, 2]) e.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#accuracy-accelerator'))"
    )
    settled(tab)
    assert "2 observations" in tab.text("#accuracy .note")


@pytest.mark.parametrize(
    ("body", "words"),
    [(BROKEN, "cannot be reached"), ("new Response('<html>')", "no JSON")],
    ids=["broken", "no JSON"],
)
def test_a_body_that_cannot_be_read_is_said_to_be(shown: Shown, body: str, words: str) -> None:
    tab = shown("?on=T4")
    tab.run(INSTEAD % ("v1/predict", body))
    tab.click("button.go")
    tab.wait(f"document.querySelector('#form-error').innerText.includes({json.dumps(words)})")
    assert not tab.run("document.querySelector('#panels').classList.contains('waiting')")
    assert tab.run("document.querySelector('#throughput')") is None
    assert tab.run("document.title") == "perfmodel"


def test_a_key_that_no_header_can_hold_is_not_taken(shown: Shown) -> None:
    tab = shown("?on=T4")
    tab.click("#key-button")
    tab.wait("document.querySelector('#key-dialog').open")
    tab.write("pmk_ключ")
    tab.press("Enter")
    assert tab.wait("document.querySelector('#key').matches(':invalid')")
    assert tab.run("document.querySelector('#key-dialog').open")
    assert tab.run("sessionStorage.length") == 0
    tab.click("#key-dialog button[value=cancel]")
    tab.wait("!document.querySelector('#key-dialog').open")


def test_a_question_of_any_size_can_be_loaded_again(shown: Shown, service: Service) -> None:
    tab = shown("?on=T4&batch=8")
    labels = {str(number): f"a class whose name is {number}" for number in range(2_000)}
    config = json.dumps({"model_type": "gpt2", "id2label": labels})
    tab.run(f"document.querySelector('#model').value = {json.dumps(config)}")
    tab.click("button.go")
    tab.wait("location.hash.length > 70000")
    # What a link of before stated goes over into the fragment.
    assert tab.run("location.search") == ""
    address = tab.run("location.href")
    assert "batch=8&on=T4" in address
    tab.open("about:blank")
    tab.open(address)
    tab.wait("document.querySelector('#batch').value === '8'")
    assert tab.run("document.querySelector('#model').value") == config


def test_the_skip_link_leaves_the_question_alone(tab: Tab, service: Service) -> None:
    tab.open(f"{service.url}/#batch=8&on={quote('T4')}")
    tab.wait("document.querySelector('#throughput')")
    tab.run("document.querySelector('.skip').click()")
    assert tab.run("document.activeElement.id") == "answer"
    assert tab.run("location.hash") == "#batch=8&on=T4"
    assert "batch 8" in tab.text(".asked")
