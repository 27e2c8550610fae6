"""The page in a real Chromium, against a real service: what people do with it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from asking import Service
from chromium import Tab

Shown = Callable[..., Tab]
JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
SVG = "{http://www.w3.org/2000/svg}"


def save(tab: Tab, name: str, kind: str) -> str:
    tab.click(f"#{name} .tools button:nth-child({('svg', 'csv').index(kind) + 1})")
    return tab.saved(f"perfmodel-{name}.{kind}")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def body_of(tab: Tab, name: str) -> Any:
    """Return the body of the request that a picture shows."""
    tab.run(f"document.querySelector('#{name} .below details:last-child').open = true")
    curl = tab.wait(f"document.querySelector('#{name} pre')?.innerText")
    found = re.search(r"-d '(.*)'$", curl, re.DOTALL)
    assert found is not None, curl
    return json.loads(found[1].replace("'\\''", "'"))


def test_the_answer_is_that_of_the_service(shown: Shown, service: Service) -> None:
    tab = shown("?model=timm/resnet18&batch=32&precision=amp_fp16&on=2x(4xT4)@eth-25g")
    asked = body_of(tab, "step")
    assert asked == {
        "job": {
            "model": "timm/resnet18", "mode": "training", "batch_size": 32,
            "precision": "amp_fp16",
        },
        "placement": "2x(4xT4)@eth-25g",
    }  # fmt: skip
    answer = service.ask("/v1/predict", asked)
    rate = answer["throughput"]
    shown_numbers = [tab.text(part).replace(",", "") for part in ("#throughput", "#low", "#high")]
    for text, value in zip(
        shown_numbers, (rate["samples_per_second"], rate["low"], rate["high"]), strict=True
    ):
        # Four digits, or all before the point.
        assert float(text) == pytest.approx(value, rel=5e-4)
    assert tab.text("#basis") == answer["basis"]
    assert answer["model_version"] in tab.text("#answer")
    parts = rows_of(save(tab, "step", "csv"))
    assert [float(row["time_s"]) for row in parts] == list(answer["breakdown"].values())
    (memory,) = rows_of(save(tab, "memory", "csv"))
    assert float(memory["peak_bytes"]) == answer["memory"]["peak_bytes"]
    assert memory["fits"] == str(answer["memory"]["fits"]).lower()


def test_an_unknown_name_is_repaired_with_one_click(shown: Shown) -> None:
    tab = shown()
    tab.click("#model")
    tab.write("timm/resnet51")
    tab.press("Enter")
    error = tab.wait("document.querySelector('#model-error')?.innerText")
    assert "Unknown model" in error
    assert tab.run("document.activeElement.id") == "model"
    assert tab.run("document.querySelector('#model').getAttribute('aria-invalid')") == "true"
    assert tab.run("document.querySelector('#throughput')") is None
    tab.click("#model-error button")
    tab.wait("document.querySelector('#throughput')")
    assert tab.run("document.querySelector('#model').value") == "timm/resnet50"
    assert tab.run("document.querySelectorAll('.error').length") == 0


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("?batch=many", "batch", "batch_size"),
        ("?on=8xA100-SXM4-80GBB", "accelerator", "A100-SXM4-80GB"),
        ("?on=2x(8xA100", "on", "no accelerator"),
        ("?on=2x(8xA100)@carrier-pigeon", "on", "carrier-pigeon"),
        ("?kwargs={img", "kwargs", "JSON"),
        ("?accumulation=0", "accumulation", "accumulation_steps"),
    ],
)
def test_an_error_stands_next_to_its_field(
    tab: Tab, service: Service, query: str, field: str, words: str
) -> None:
    tab.open(f"{service.url}/{query}")
    assert words in tab.wait(f"document.querySelector('#{field}-error')?.innerText")
    # It is said to be the description of the field, and it can be seen.
    assert tab.run(f"document.querySelector('#{field}').getAttribute('aria-describedby')")
    assert tab.run(f"document.querySelector('#{field}-error').checkVisibility()")


def test_accelerators_are_compared_and_priced(shown: Shown, service: Service) -> None:
    tab = shown("?precision=amp_fp16&on=2x(4xA100-SXM4-80GB)&versus=T4,H100-SXM5-80GB")
    answer = service.ask("/v1/matrix", body_of(tab, "compare"))
    rates = dict(
        zip(
            ["A100-SXM4-80GB", "T4", "H100-SXM5-80GB"], answer["samples_per_second"][0], strict=True
        )
    )
    rows = rows_of(save(tab, "compare", "csv"))
    assert {row["accelerator"]: float(row["samples_per_second"]) for row in rows} == rates
    synchronising = {row["accelerator"]: float(row["sync_time_s"]) for row in rows}
    assert list(map(synchronising.get, rates)) == answer["sync_time_s"][0]
    # Most first.
    assert [row["accelerator"] for row in rows] == sorted(rates, key=lambda n: -rates[n])
    tab.click("[data-price='T4']")
    tab.write("0.5")
    tab.press("Tab")
    tab.click("input[name=compare-by][value=cost]")
    tab.wait("document.querySelector('#compare .canvas svg').textContent.includes('USD')")
    (priced,) = [row for row in rows_of(save(tab, "compare", "csv")) if row["per_hour"]]
    # Eight accelerators at 0.5 an hour, over the samples of an hour.
    expected = 8 * 0.5 / (3600 * rates["T4"]) * 1e6
    assert float(priced["cost_per_million_samples"]) == pytest.approx(expected)
    tab.click("#versus")
    tab.write("L4")
    tab.press("Enter")
    tab.wait("document.querySelector('#compare .canvas svg').textContent.includes('L4')")
    assert tab.run("location.hash").endswith("versus=T4,H100-SXM5-80GB,L4")
    # What is written by another name is the same accelerator, and one cross takes it away.
    tab.click("#versus")
    tab.write("H100")
    tab.press("Enter")
    tab.wait("location.hash.endsWith(',H100')")
    tab.wait("!document.querySelector('.waiting')")
    names = "[...document.querySelectorAll('#prices tbody td:first-child')].map((e) => e.innerText)"
    assert sorted(tab.run(names)) == ["A100-SXM4-80GB", "H100-SXM5-80GB", "L4", "T4"]
    tab.click("[aria-label='Leave H100-SXM5-80GB out']")
    tab.wait("location.hash.endsWith('versus=T4,L4')")
    tab.run("sessionStorage.clear()")


def test_one_accelerator_that_is_not_known_costs_its_own_bar(shown: Shown) -> None:
    tab = shown("?versus=T4,T5000")
    assert "no answer" in tab.run("document.querySelector('#compare .canvas').textContent")
    assert "Unknown accelerator 'T5000'" in tab.text("#compare .caption")


def test_the_curve_is_drawn_against_ideal_scaling(shown: Shown, service: Service) -> None:
    tab = shown("?on=8xT4&most=32")
    answer = service.ask("/v1/curve", body_of(tab, "curve"))
    rows = rows_of(save(tab, "curve", "csv"))
    assert [int(row["count"]) for row in rows] == [1, 2, 4, 8, 16, 32]
    columns = ("samples_per_second", "low", "high", "efficiency", "compute_time_s", "sync_time_s")
    for column in columns:
        assert [float(row[column]) for row in rows] == answer[column]
    assert points_of(tab, "#curve .line") == 6
    assert points_of(tab, "#curve .ideal") == 6
    # On logarithmic axes ideal scaling is a straight line.
    ideal = tab.run("document.querySelector('#curve .ideal').getAttribute('d')")
    places = [tuple(map(float, point.split())) for point in re.split("[ML]", ideal)[1:]]
    slopes = {
        round((b[1] - a[1]) / (b[0] - a[0]), 2) for a, b in zip(places, places[1:], strict=False)
    }
    assert max(slopes) - min(slopes) <= 0.02
    tab.click("#curve input[value=linear]")
    tab.wait(f"document.querySelector('#curve .ideal').getAttribute('d') != {json.dumps(ideal)}")
    assert tab.run("document.querySelectorAll('#curve .dot.asked').length") == 1


def points_of(tab: Tab, selector: str) -> int:
    path = tab.run(f"document.querySelector({json.dumps(selector)}).getAttribute('d')")
    return len(re.findall("[ML]", path))


def test_the_roofline_holds_the_operators(shown: Shown, service: Service) -> None:
    tab = shown("?on=T4")
    asked = body_of(tab, "roofline")
    answer = service.ask("/v1/explain", asked)
    rows = rows_of(save(tab, "roofline", "csv"))
    assert [float(row["time_s"]) for row in rows] == [o["time_s"] for o in answer["operators"]]
    roof = answer["roofline"]
    for row, operator in zip(rows, answer["operators"], strict=True):
        bound = min(roof["peak_flops_per_s"], operator["intensity"] * roof["memory_bytes_per_s"])
        assert float(row["roof_flops_per_s"]) == pytest.approx(bound)
    arithmetic = [o for o in answer["operators"] if o["flops"] > 0]
    assert tab.run("document.querySelectorAll('#roofline svg .dot').length") == len(arithmetic)
    picture = ET.fromstring(save(tab, "roofline", "svg"))
    assert len(picture.findall(f".//{SVG}circle")) >= len(arithmetic)


def test_time_is_shown_by_class_and_by_operator(shown: Shown, service: Service) -> None:
    tab = shown("?on=T4")
    answer = service.ask("/v1/explain", body_of(tab, "operators"))
    classes = rows_of(save(tab, "operators", "csv"))
    assert {row["name"]: float(row["time_s"]) for row in classes} == {
        one["name"]: one["time_s"] for one in answer["operator_classes"]
    }
    assert math.fsum(float(row["share"]) for row in classes) == pytest.approx(1)
    tab.click("input[name=operators-by][value=operators]")
    tab.wait("document.querySelector('#operators .canvas').textContent.includes('forward')")
    operators = rows_of(save(tab, "operators", "csv"))
    assert len(operators) == len(answer["operators"])
    factors = rows_of(save(tab, "factors", "csv"))
    assert float(factors[-1]["step_time_s"]) == answer["estimate"]["step_time_s"]


def test_what_was_observed_stands_against_what_was_predicted(
    shown: Shown, service: Service
) -> None:
    seen = []
    for name, batch, times in (("T4", 16, 1.2), ("T4", 32, 0.9), ("A100-SXM4-80GB", 16, 1.1)):
        cell = {"job": {**JOB, "batch_size": batch}, "placement": name}
        predicted_s = service.ask("/v1/predict", cell)["step_time_s"]
        seen.append({**cell, "step_time_s": times * predicted_s})
    taken = service.ask("/v1/observations", {"observations": seen})
    assert taken["accepted"] == 3
    tab = shown()
    tab.wait("document.querySelectorAll('#accuracy svg .dot').length == 3")
    rows = rows_of(save(tab, "accuracy", "csv"))
    answer = service.ask("/v1/accuracy?limit=500")
    assert [float(row["predicted_s"]) for row in rows] == [
        point["predicted_s"] for point in answer["points"]
    ]
    for row in rows:
        assert float(row["ratio"]) == float(row["predicted_s"]) / float(row["measured_s"])
    # The first table sums up each accelerator as the service does.
    summary = tab.text("#errors table")
    for group in answer["by_accelerator"]:
        percent = group["mape"] * 100
        assert f"{percent:.0f} %" in summary or f"{percent:.1f} %" in summary
    assert tab.run("document.querySelectorAll('#errors svg .dot').length") == 3
    # Whoever reads a time is told whose clock it is of.
    assert "UTC" in tab.run("document.querySelector('#errors svg').textContent")
    assert all(row["time"].endswith("+00:00") for row in rows)


def test_pictures_are_whole_without_the_page(shown: Shown) -> None:
    tab = shown()
    for name in ("step", "memory", "compare", "curve", "roofline", "operators", "factors"):
        check_picture(save(tab, name, "svg"))


def check_picture(written: str) -> None:
    picture = ET.fromstring(written)
    text = ET.tostring(picture, encoding="unicode")
    assert picture.tag == f"{SVG}svg"
    assert not re.search(r"\bclass=|\bstyle=|var\(|light-dark|currentcolor", text, re.IGNORECASE)
    assert picture.findtext(f"{SVG}title")
    # The request that made it travels with it.
    assert "curl -s 'http://127.0.0.1" in (picture.findtext(f"{SVG}desc") or "")
    width, height = (float(picture.attrib[side]) for side in ("width", "height"))
    assert width > 200 and height > 20
    words = [node.text for node in picture.iter(f"{SVG}text")]
    assert any(re.search(r"\d", word or "") for word in words), words
    for node in picture.iter(f"{SVG}text"):
        assert node.attrib["fill"].startswith("rgb")


def test_the_address_holds_the_question(shown: Shown, tab: Tab) -> None:
    shown("?model=timm/resnet18&mode=inference&batch=8&precision=bf16&compiler=inductor&on=L4")
    values = tab.run("Object.fromEntries(new FormData(document.querySelector('#question')))")
    assert values["model"] == "timm/resnet18"
    assert values["mode"] == "inference"
    assert (values["batch"], values["precision"], values["on"]) == ("8", "bf16", "L4")
    # What was changed under the fold is not hidden there.
    assert tab.run("document.querySelector('#more').open")
    assert tab.run("document.querySelector('#optimizer').checkVisibility()") is False
    tab.click("#batch")
    tab.write("16")
    tab.press("Tab")
    tab.wait("location.hash.includes('batch=16')")
    assert "mode=inference" in tab.run("location.hash")
    tab.wait("document.querySelector('.asked').innerText.includes('batch 16')")
    tab.run("history.back()")
    tab.wait("document.querySelector('.asked').innerText.includes('batch 8')")
    assert tab.run("document.querySelector('#batch').value") == "8"


def test_fields_build_the_placement_and_follow_its_text(shown: Shown) -> None:
    tab = shown("?on=2x(8xH100-SXM5-80GB)@ib-400g cores=16".replace(" ", "%20"))
    fields = "['accelerator','count','hosts','network'].map(n => document.getElementById(n).value)"
    assert tab.run(fields) == ["H100-SXM5-80GB", "8", "2", "ib-400g"]
    tab.click("#hosts")
    tab.write("4")
    assert tab.run("document.querySelector('#on').value") == "4x(8xH100-SXM5-80GB)@ib-400g cores=16"
    tab.click("#on")
    tab.write("8xA100+2x(4xV100)@ib-100g")
    # Two kinds of hosts are more than four fields can say.
    assert tab.run("document.querySelector('#count').disabled")
    tab.press("Enter")
    tab.wait("document.querySelector('.asked').innerText.includes('V100')")
    tab.wait("document.querySelector('#curve .note')")


@pytest.mark.parametrize(
    ("written", "accelerator", "count"),
    [
        ("A100x8", "A100", "8"),
        ("a100-sxm4-80gb:8", "a100-sxm4-80gb", "8"),
        ("8 A100", "A100", "8"),
        ("4090x2", "4090", "2"),
        ("RX 7900 XTX", "RX 7900 XTX", "1"),
        ("RTX3090", "RTX3090", "1"),
    ],
)
def test_fields_follow_what_people_write(
    shown: Shown, written: str, accelerator: str, count: str
) -> None:
    tab = shown(f"?on={written}".replace(" ", "%20"))
    fields = "['accelerator','count'].map(n => document.getElementById(n).value)"
    assert tab.run(fields) == [accelerator, count]
    # The card is found in the catalogue, whose spelling is another: it has matrix units.
    if "100" in written:
        assert tab.run("document.querySelector('#precision-usual').innerText").startswith("amp_")


@pytest.mark.parametrize(
    ("written", "row", "count", "precision"),
    [
        ("p4d.24xlarge", "A100-SXM4-40GB", 8, "amp_bf16"),
        ("Xeon Platinum 8480+", "Xeon-Platinum-8480-Plus", 1, "fp32"),
        ("2x(4xT4)@100gbit, 20us", "T4", 8, "amp_fp16"),
    ],
)
def test_whatever_the_service_reads_is_compared_and_drawn(
    shown: Shown, written: str, row: str, count: int, precision: str
) -> None:
    tab = shown(f"?on={quote(written)}&versus=L4")
    rows = {one["accelerator"]: int(one["count"]) for one in rows_of(save(tab, "compare", "csv"))}
    assert rows == {row: count, "L4": count}
    assert f"batch 64, {precision}, on" in tab.text(".asked")
    (kind,) = rows_of(save(tab, "curve", "csv"))[:1]
    assert kind["count"] == "1"
    assert body_of(tab, "curve")["accelerator"] == row


def test_all_of_it_goes_by_keyboard(shown: Shown) -> None:
    tab = shown()
    tab.press("Tab")
    assert tab.run("document.activeElement.className") == "skip"
    for _ in range(10):
        tab.press("Tab")
        if tab.run("document.activeElement.id") == "model":
            break
    tab.write("timm/resnet18")
    stops = []
    for _ in range(6):
        tab.press("Tab")
        stops.append(tab.run("document.activeElement.id || document.activeElement.name"))
        if stops[-1] == "mode":
            break
    assert stops == ["preset", "config-open", "onnx-open", "mode"]
    # A group of choices is one stop; arrows choose.
    tab.press("ArrowRight")
    assert tab.run("document.querySelector('[name=mode]:checked').value") == "inference"
    tab.press("Enter")
    tab.wait("document.querySelector('.asked').innerText.includes('resnet18, inference')")
    tab.wait("document.activeElement.id == 'answer'")
    tab.wait("document.querySelector('#factors svg') && !document.querySelector('.waiting')")
    focus = []
    for _ in range(120):
        tab.press("Tab")
        stop = tab.run(
            "(e => `${e.closest('.figure')?.id} ${e.localName}`)(document.activeElement)"
        )
        focus.append(stop)
        outline = tab.run(
            "(e => getComputedStyle(e.matches('.segments input') ? e.nextSibling : e).outlineStyle)"
            "(document.activeElement)"
        )
        assert outline != "none", stop
        if stop == "curve svg":
            break
    assert focus[-1] == "curve svg"
    assert {"step button", "compare input", "compare summary"} <= set(focus)
    tab.press("ArrowRight")
    assert "1 accelerators" in tab.text("#curve .tip")
    tab.press("ArrowRight")
    assert "2 accelerators" in tab.text("#curve .tip")
    tab.press("Escape")
    assert tab.run("document.querySelector('#curve .tip').hidden")


def test_a_pointer_reads_the_marks(shown: Shown) -> None:
    tab = shown()
    tab.point(*tab.middle("#curve .asked"))
    assert "8 accelerators" in tab.wait("document.querySelector('#curve .tip')?.innerText")


def test_nothing_is_asked_of_anybody_else(shown: Shown, service: Service) -> None:
    tab = shown()
    assert len(tab.requests) > 10
    assert not [url for url in tab.requests if not url.startswith((service.url, "blob:", "data:"))]
    assert tab.run("document.cookie + localStorage.length") == "0"


def test_a_service_that_is_away_is_said_to_be(shown: Shown) -> None:
    tab = shown()
    rules = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.send("Network.emulateNetworkConditions", offline=True, **rules)
    tab.click("button.go")
    assert "cannot be reached" in tab.wait("document.querySelector('#form-error').innerText")
    tab.send("Network.emulateNetworkConditions", offline=False, **rules)
    tab.click("button.go")
    tab.wait("document.querySelector('#throughput')")
    assert tab.run("document.querySelector('#form-error').hidden")


def test_a_key_is_asked_for_and_kept_for_the_tab(
    tab: Tab, token_and_guarded: tuple[str, Service]
) -> None:
    token, guarded = token_and_guarded
    tab.open(f"{guarded.url}/")
    tab.wait("document.querySelector('#key-dialog').open")
    assert tab.run("document.activeElement.id") == "key"
    tab.write(token)
    tab.press("Enter")
    tab.wait("document.querySelector('#throughput') && document.querySelector('#curve svg')")
    assert tab.run("Object.values(sessionStorage).length") == 1
    assert tab.run("localStorage.length + document.cookie") == "0"
    assert not [url for url in tab.requests if token in url]
    tab.run("document.querySelector('#curve .below details:last-child').open = true")
    curl = tab.wait("document.querySelector('#curve pre')?.innerText")
    assert "$PERFMODEL_KEY" in curl and token not in curl
    # This key may predict; observations are not for it, and the page says so in their place.
    assert "observe" in tab.wait("document.querySelector('#accuracy .error')?.innerText")
    tab.open(f"{guarded.url}/?batch=8")
    tab.wait("document.querySelector('#throughput')")
    tab.click("#key-button")
    tab.wait("document.querySelector('#key-dialog').open")
    tab.click("#key-forget")
    # A dialog tells of its closing in a task of its own, a moment after it is shut.
    tab.wait("!document.querySelector('#key-dialog').open && sessionStorage.length === 0")
