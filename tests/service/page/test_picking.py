"""Ways to a question in a real Chromium: examples, configurations, files, and all mistakes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from chromium import Tab
from onnx_files import one_node, weight

Shown = Callable[..., Tab]

FIELDS = "Object.fromEntries(new FormData(document.querySelector('#question')))"
#: Makes one accelerator of a matrix rest on what somebody measured.
MEASURED = """(() => { const ask = window.fetch; window.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (!String(url).endsWith('v1/matrix')) return answer;
  const body = await answer.json();
  body.basis[0] = body.basis[0].map((basis, i) => (i === %d ? 'calibrated' : basis));
  return new Response(JSON.stringify(body), {headers: {'Content-Type': 'application/json'}});
}; })()"""


#: Says of one accelerator what the service says of those that its model has learned nothing of.
UNSEEN = """(() => { const ask = window.fetch; window.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (!String(url).endsWith('v1/matrix')) return answer;
  const body = await answer.json();
  body.warnings.push('The model has learned from no step on %s: the answer rests on others.');
  return new Response(JSON.stringify(body), {headers: {'Content-Type': 'application/json'}});
}; })()"""


def choose(tab: Tab, selector: str, value: str) -> None:
    tab.run(
        f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', "
        f"{{bubbles: true}})); }})(document.querySelector({json.dumps(selector)}))"
    )


def rows(tab: Tab) -> list[str]:
    found: list[str] = tab.run(
        "[...document.querySelectorAll('#prices tbody td:first-child')].map((e) => e.innerText)"
    )
    return found


@pytest.mark.parametrize(
    ("accelerator", "precision"),
    [("K80", None), ("V100-SXM2-16GB", "amp_fp16"), ("A100-SXM4-80GB", "amp_bf16")],
)
def test_the_precision_is_what_people_train_with_there(
    shown: Shown, accelerator: str, precision: str | None
) -> None:
    tab = shown(f"?on={accelerator}")
    tab.run("document.querySelector('#step .below details:last-child').open = true")
    curl = tab.wait("document.querySelector('#step pre')?.innerText")
    assert (f'"precision":"{precision}"' in curl) is (precision is not None)
    assert (precision or "fp32") in tab.text(".asked")
    # It is said to be the usual one, and is none of the address.
    usual = tab.run("document.querySelector('#precision').selectedOptions[0].text")
    assert usual == f"{precision or 'fp32'}, usual"
    assert "precision" not in tab.run("location.hash")


def test_a_slice_computes_in_what_is_usual_on_its_card(tab: Tab, service: Service) -> None:
    tab.open(f"{service.url}/?on=A100-SXM4-80GB/3g.40gb")
    tab.wait("document.querySelector('#precision-usual').textContent === 'amp_bf16, usual'")


def test_an_example_fills_the_form(shown: Shown) -> None:
    tab = shown("?kwargs={}&accumulation=4&on=T4")
    choose(tab, "#preset", "0")
    tab.wait("location.hash.includes('optimizer=momentum')")
    fields: dict[str, Any] = tab.run(FIELDS)
    assert (fields["model"], fields["batch"], fields["format"]) == (
        "timm/resnet50", "128", "channels_last",
    )  # fmt: skip
    # What the example does not say is as usual; where it runs was not changed.
    assert (fields["accumulation"], fields["kwargs"], fields["on"]) == ("1", "", "T4")
    tab.wait("document.querySelector('.asked').innerText.includes('batch 128')")


def test_a_configuration_is_edited_as_json(shown: Shown) -> None:
    tab = shown()
    tab.click("#config-open")
    tab.wait("document.querySelector('#config-dialog').open")
    assert tab.run("document.activeElement.id") == "config-text"
    tab.write('{"model_type": "gpt2",\n "n_layer": 2,\n "n_embd" 64}')
    # Said at its line, and not taken.
    assert "Line 3" in tab.wait("document.querySelector('#config-state.error')?.innerText")
    assert tab.run("document.querySelector('#config-lines b').innerText") == "3"
    assert tab.run("document.querySelector('#config-use').disabled")
    tab.run("document.querySelector('#config-text').select()")
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2}
    tab.write(json.dumps(config))
    tab.click("#config-format")
    assert tab.run("document.querySelector('#config-text').value.split('\\n').length") == 6
    tab.click("#config-use")
    tab.wait("document.querySelector('#model').value.startsWith('{')")
    assert json.loads(tab.run("document.querySelector('#model').value")) == config


def test_an_onnx_file_is_asked_about(shown: Shown, tmp_path: Path) -> None:
    tab = shown("?mode=inference&batch=1&on=T4")
    file = tmp_path / "one.onnx"
    file.write_bytes(one_node("Gemm", [(1, 64)], [weight("w", 64, 8)]))
    document = tab.send("DOM.getDocument")["root"]["nodeId"]
    node = tab.send("DOM.querySelector", nodeId=document, selector="#onnx")["nodeId"]
    tab.send("DOM.setFileInputFiles", files=[str(file)], nodeId=node)
    said = tab.wait(
        "((e) => e.hidden || e.innerText.startsWith('Reading') ? '' : e.innerText)"
        "(document.querySelector('#picked'))"
    )
    assert said == "one.onnx, at batch 1."
    tab.wait("/^[0-9a-f]{32,64}$/.test(document.querySelector('#model').value)")
    tab.wait("document.querySelector('#throughput') && !document.querySelector('.waiting')")


def test_all_mistakes_are_marked_at_once(tab: Tab, service: Service) -> None:
    tab.open(f"{service.url}/?batch=many&kwargs={{img&accumulation=0&on=8xA100-SXM4-80GBB")
    tab.wait("document.querySelectorAll('.error[id]').length >= 4")
    wrong = tab.run("[...document.querySelectorAll('[aria-invalid=true]')].map((e) => e.id)")
    assert set(wrong) == {"batch", "kwargs", "accumulation", "accelerator"}


def test_what_nobody_measured_does_not_lead(shown: Shown) -> None:
    tab = shown("?on=T4&versus=T4,H100-SXM5-80GB,L4&precision=amp_fp16")
    assert rows(tab)[0] == "H100-SXM5-80GB"
    tab.run(MEASURED % 0)
    tab.click("button.go")
    tab.wait("document.querySelector('#prices tbody td').innerText === 'T4'")
    assert rows(tab) == ["T4", "H100-SXM5-80GB", "L4"]
    assert "Most: T4, of what was measured." in tab.text("#compare .caption")
    assert "calibrated" in tab.text("#prices tbody tr:first-child")
    assert tab.run("document.querySelectorAll('#compare svg .guessed').length") == 2


def test_an_accelerator_that_nobody_measured_does_not_lead_either(shown: Shown) -> None:
    # All three go beyond what was measured; of one the model has seen nothing at all.
    tab = shown("?on=T4&versus=T4,H100-SXM5-80GB,L4")
    tab.run(UNSEEN % "H100-SXM5-80GB")
    tab.click("button.go")
    tab.wait("document.querySelector('#prices tbody td').innerText !== 'H100-SXM5-80GB'")
    assert rows(tab)[-1] == "H100-SXM5-80GB"
    # Nothing was measured, so that nothing leads by that.
    assert "beyond what was measured." in tab.text("#compare .caption")
    assert "of what was measured" not in tab.text("#compare .caption")
    assert "of accelerators that steps were learned from." in tab.text("#compare .caption")
    assert tab.run("document.querySelectorAll('#compare svg .guessed').length") == 3
    assert "The model has learned from no step on H100" in tab.text("#compare .warnings")


def test_each_accelerator_is_compared_in_its_usual_precision(
    shown: Shown, service: Service
) -> None:
    tab = shown("?on=A100-SXM4-80GB&versus=T4,K80")
    job = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
    wanted = {"A100-SXM4-80GB": "amp_bf16", "T4": "amp_fp16", "K80": "fp32"}
    tab.click("#compare .tools button:nth-child(2)")
    for row in csv.DictReader(io.StringIO(tab.saved("perfmodel-compare.csv"), newline="")):
        assert row["precision"] == wanted[row["accelerator"]]
        asked = {"job": {**job, "precision": row["precision"]}, "placement": row["accelerator"]}
        answer = service.ask("/v1/predict", asked)
        assert float(row["step_time_s"]) == pytest.approx(answer["step_time_s"], rel=1e-12)
    assert "usual on it" in tab.text("#compare .caption")


def test_costs_stand_below_the_answer(shown: Shown, service: Service) -> None:
    tab = shown("?on=2xT4")
    tab.wait("document.querySelector('#costs dd')")
    facts = dict(
        tab.run(
            "[...document.querySelectorAll('#costs div')].map((e) => "
            "[e.querySelector('dt').innerText, e.querySelector('dd').innerText])"
        )
    )
    asked = {"job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64,
                     "precision": "amp_fp16"}, "placement": "2xT4"}  # fmt: skip
    answer = service.ask("/v1/explain", asked)
    share = answer["model_flops_utilisation"]
    assert float(facts["MFU"].removesuffix(" %")) == pytest.approx(100 * share, abs=0.5)
    # Two cards of 70 W, over the samples of a second.
    joules = 2 * 70 / answer["estimate"]["throughput"]["samples_per_second"] * 1e6
    assert facts["Energy of a million samples"].startswith("≤ ")
    number, unit = facts["Energy of a million samples"].removeprefix("≤ ").split()
    factor = {"Wh": 1, "kWh": 1e3, "mWh": 1e-3}[unit]
    assert float(number) * factor == pytest.approx(joules / 3600, rel=0.01)
    tab.click("[data-price='T4']")
    tab.write("0.5")
    tab.press("Tab")
    tab.wait("document.querySelector('#costs').innerText.includes('USD')")
    tab.run("sessionStorage.clear()")


def test_what_takes_long_can_be_given_up(shown: Shown) -> None:
    tab = shown()
    tab.run("window.fetch = (_, {signal}) => new Promise((_, no) => "
            "signal.addEventListener('abort', () => no(signal.reason)))")  # fmt: skip
    tab.click("button.go")
    tab.wait("document.querySelector('#patience button')")
    # What stands there is still of the question before, and so is what it says it is of.
    assert "batch 64" in tab.text(".asked")
    opacity = "getComputedStyle(document.querySelector('%s')).opacity"
    for faint in ("#answer", "#compare", "#curve", "#roofline"):
        tab.wait(f"{opacity % faint} === '0.45'")
    assert tab.run(opacity % "#patience") == "1"
    tab.click("#patience button")
    assert tab.run("document.title") == "perfmodel"
    assert "given up" in tab.wait("document.querySelector('#answer .note')?.innerText")
    assert tab.run("document.querySelector('#again').checkVisibility()")


def test_an_answer_ends_the_waiting_whatever_is_asked_after_it(shown: Shown) -> None:
    tab = shown()
    # The answer comes at once, what explains it never, so that the question as a whole goes on.
    tab.run("((ask) => { window.fetch = (url, options) => String(url).endsWith('v1/explain')"
            " ? new Promise(() => {}) : ask(url, options); })(window.fetch);"
            "window.slow = []; ((later) => { window.setTimeout = (run, ms) => {"
            " if (ms === 1500) window.slow.push(later(run, 200)); else return later(run, ms);"
            " return window.slow.at(-1); }; })(window.setTimeout)")  # fmt: skip
    choose(tab, "#batch", "96")
    tab.wait("document.querySelector('.asked')?.innerText.includes('batch 96')")
    tab.wait("window.slow.length > 0")
    # Timers run in their order: what would have been said is said by now.
    tab.wait("new Promise((done) => setTimeout(() => done(true), 1000))")
    assert tab.run("document.querySelector('#patience').hidden")


def test_a_small_screen_shows_the_answer_first(shown: Shown, tab: Tab) -> None:
    tab.look(width=360, height=780)
    shown()
    top = "((e) => e.getBoundingClientRect().top)(document.querySelector('%s'))"
    assert tab.run(top % "#answer") < tab.run(top % "#question") < tab.run(top % "#compare")
