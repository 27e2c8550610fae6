"""What the pictures say in a real Chromium: money and energy, marks, warnings, prices, times."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from asking import Service
from chromium import Tab

Shown = Callable[..., Tab]
A100 = "A100-SXM4-80GB"
JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64, "precision": "amp_bf16"}
UNITS = {"mWh": 1e-3, "Wh": 1.0, "kWh": 1e3}


def rows_of(tab: Tab, name: str) -> list[dict[str, str]]:
    tab.click(f"#{name} .tools button:nth-child(2)")
    return list(csv.DictReader(io.StringIO(tab.saved(f"perfmodel-{name}.csv"), newline="")))


def bodies_of(tab: Tab, name: str) -> list[Any]:
    """Return the bodies of the requests that a picture shows."""
    tab.run(f"document.querySelector('#{name} .below details:last-child').open = true")
    curl = tab.wait(f"document.querySelector('#{name} pre')?.innerText")
    return [json.loads(body) for body in re.findall(r"-d '(.*)'$", curl, re.MULTILINE)]


def type_price(tab: Tab, accelerator: str, text: str) -> None:
    tab.click(f"[data-price='{accelerator}']")
    tab.write(text)
    tab.press("Tab")


@pytest.mark.parametrize("how", [" fraction=0.5", " power=200", "/3g.40gb", "+T4@eth-25g"])
def test_money_and_energy_are_those_of_a_ranking(tab: Tab, service: Service, how: str) -> None:
    on = A100 + how
    several = "+" in how
    tab.open(f"{service.url}/?on={quote(on)}&versus={A100}&precision=amp_bf16")
    tab.wait("document.querySelector('#costs dd')")
    prices = {A100: 3.0, "T4": 0.5}
    if several:
        # No kind of accelerator has a row then; what was typed before counts.
        tab.run(f"sessionStorage.setItem('perfmodel-prices', {json.dumps(json.dumps(prices))})")
        tab.run("dispatchEvent(new Event('perfmodel-prices'))")
    else:
        tab.wait("document.querySelector('#prices input')")
        type_price(tab, A100, "3")
    tab.wait("document.querySelector('#costs').innerText.includes('USD')")
    facts = dict(
        tab.run(
            "[...document.querySelectorAll('#costs div')].map((e) => "
            "[e.querySelector('dt').innerText, e.querySelector('dd').innerText])"
        )
    )
    asked = {"job": JOB, "placements": [on], "by": "cost", "prices": prices}
    (ranked,) = service.ask("/v1/rank", asked)["best"]
    costs = 1e6 / ranked["samples_per_money"]
    shown_costs = float(facts["A million samples"].removesuffix(" USD"))
    assert shown_costs == pytest.approx(costs, rel=5e-3)
    number, unit = facts["Energy of a million samples"].removeprefix("≤ ").split()
    joules = 1e6 / ranked["samples_per_joule"]
    assert float(number) * UNITS[unit] == pytest.approx(joules / 3600, rel=5e-3)
    share = service.ask("/v1/explain", {"job": JOB, "placement": on})["model_flops_utilisation"]
    assert float(facts["MFU"].removesuffix(" %")) == pytest.approx(100 * share, abs=0.5)
    if not several:
        own = on.partition(" ")[0]
        (row,) = [one for one in rows_of(tab, "compare") if one["accelerator"] == own]
        assert float(row["cost_per_million_samples"]) == pytest.approx(costs)
    tab.run("sessionStorage.clear()")


def test_what_was_asked_is_marked_where_it_was_answered(shown: Shown, service: Service) -> None:
    # Halves of eight, in four hosts: not the eight of one host that the curve has.
    on = f"4x(2x{A100}[pcie4])@eth-10g fraction=0.5"
    tab = shown(f"?on={quote(on)}&versus=T4&most=100")
    rate = service.ask("/v1/predict", {"job": JOB, "placement": on})["throughput"][
        "samples_per_second"
    ]
    (own,) = [row for row in rows_of(tab, "compare") if row["accelerator"] == A100]
    assert float(own["samples_per_second"]) == rate
    # Its link is its own: the others have theirs.
    asked = [body["placements"] for body in bodies_of(tab, "compare")]
    assert asked == [[on], [on.replace(f"{A100}[pcie4]", "T4")]]
    assert bodies_of(tab, "curve")[0]["link"] == "pcie4"
    assert "Without “fraction=0.5”" in tab.text("#curve .caption")
    (eight,) = [row for row in rows_of(tab, "curve") if row["count"] == "8"]
    assert float(eight["samples_per_second"]) != pytest.approx(rate, rel=0.05)
    tab.point(*tab.middle("#curve .asked"))
    tip = tab.wait("document.querySelector('#curve .tip')?.innerText")
    assert f"{round(rate):,} samples/s" in tip and tip.startswith(f"Asked, {on}")
    # A count that is not among those that are offered is the one that is drawn to.
    assert tab.run("document.querySelector('#most').value") == "100"
    assert rows_of(tab, "curve")[-1]["count"] == "100"


def test_warnings_stand_below_the_picture_that_they_are_about(
    shown: Shown, service: Service
) -> None:
    tab = shown("?on=8xH100&versus=H100-SXM5-80GB,A100,A100-SXM4-40GB")
    warnings = "[...document.querySelectorAll('#%s .warnings li')].map((e) => e.innerText)"
    for panel, name in (("answer", "H100"), ("compare", "A100")):
        assert any(f"'{name}' is read as" in said for said in tab.run(warnings % panel))
    asked = {"job": JOB, "accelerator": "H100-SXM5-80GB", "accelerators_per_host": 8, "most": 64}
    assert tab.run(warnings % "curve") == service.ask("/v1/curve", asked)["warnings"]
    # By whatever name it was asked, it is one of those that are compared anyway.
    names = [row["accelerator"] for row in rows_of(tab, "compare")]
    assert sorted(names) == ["A100-SXM4-40GB", "H100-SXM5-80GB"]
    assert tab.run("document.querySelector('[data-price=\"H100-SXM5-80GB\"]') !== null")


def test_an_accelerator_is_not_warned_of_a_precision_that_it_is_not_asked_in(shown: Shown) -> None:
    # A T4 has no bf16; it is compared in fp16.
    tab = shown(f"?on={A100}&versus=T4,{A100}")
    precisions = [body["jobs"][0]["precision"] for body in bodies_of(tab, "compare")]
    assert precisions == ["amp_bf16", "amp_fp16"]
    assert "bf16 arithmetic" not in tab.text("#compare")


def test_what_is_no_price_is_marked_and_not_taken(shown: Shown) -> None:
    tab = shown("?on=T4&versus=L4")
    field = "document.querySelector('[data-price=T4]')"
    for text in ("1,000", "$3", "0"):
        type_price(tab, "T4", text)
        tab.wait(f"{field}.getAttribute('aria-invalid') === 'true'")
        assert tab.run(f"{field}.value") == text
        assert tab.run("sessionStorage.length") == 0
        tab.run(f"{field}.removeAttribute('aria-invalid')")
    type_price(tab, "T4", "1200.5")
    tab.wait("document.querySelector('#costs').innerText.includes('USD')")
    assert json.loads(tab.run("Object.values(sessionStorage)[0]")) == {"T4": 1200.5}
    tab.run("sessionStorage.clear()")


def accuracy_of(answer: dict[str, Any]) -> str:
    """Return what makes the service answer so about its accuracy, and asks the page to look."""
    body = json.dumps({"points": [], "by_accelerator": [], "left_out": 0, "next": None} | answer)
    return (
        "((ask) => { window.fetch = (url, options) => String(url).includes('v1/accuracy')"
        f" ? Promise.resolve(new Response({json.dumps(body)})) : ask(url, options); }})"
        "(window.fetch); document.querySelector('#accuracy-accelerator')"
        ".dispatchEvent(new Event('change'))"
    )


def test_observations_that_cannot_be_compared_are_counted(shown: Shown) -> None:
    tab = shown()
    note = "document.querySelector('#accuracy .note')?.innerText"
    for answer, words in (
        ({"left_out": 6}, "6 observations cannot be compared"),
        ({"next": "abc"}, "older ones may be"),
        ({}, "Nothing was observed yet"),
    ):
        tab.run(accuracy_of(answer))
        tab.wait(f"{note}?.includes({json.dumps(words)})")
        load_more = "!document.querySelector('#accuracy .controls button').hidden"
        assert tab.run(load_more) is bool(answer.get("next"))
