"""No answer changes by accident: questions of every kind beside their frozen answers.

The step times come from a plain model, so that the answers depend on nothing trained; all the rest
is real. Numbers agree to ten digits, since other processors round other sums; what changed the
frozen answers on purpose stands in the history of ``answers.json.xz``.
"""

from __future__ import annotations

from typing import Any

import pytest
from golden.freeze import frozen, plain
from golden.questions import answers
from golden.stand_in import stand_in_estimator

#: Without vectors of 512 bits, and with other kernels of BLAS, they differ by 1e-11 at most.
_RELATIVE = 1e-10


def differences(found: Any, expected: Any, where: str) -> list[str]:
    """Return where two answers differ."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(found[name], one, f"{where}.{name}") for name, one in expected.items()]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = [
            (a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(found, expected, strict=True))
        ]
    elif isinstance(expected, float) and isinstance(found, float):
        return (
            []
            if found == expected or found == pytest.approx(expected, rel=_RELATIVE)
            else [f"{where}: {found!r} {expected!r}"]
        )
    else:
        return [] if found == expected else [f"{where}: {found!r} instead of {expected!r}"]
    return [text for pair in pairs for text in differences(*pair)]


def test_answers_are_as_they_were() -> None:
    expected = frozen()
    found = {name: plain(answer) for name, answer in answers(stand_in_estimator())}
    assert found.keys() == expected.keys()
    wrong = [text for name in expected for text in differences(found[name], expected[name], name)]
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:40])


def test_a_difference_is_found() -> None:
    assert differences({"a": [1.0]}, {"a": [1.0 + 1e-8]}, "x") == ["x.a[0]: 1.0 1.00000001"]
    assert not differences({"a": [1.0]}, {"a": [1.0 + 1e-11]}, "x")
