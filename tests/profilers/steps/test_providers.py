"""Execution providers: which one serves a device, and what to install where it is absent."""

from __future__ import annotations

import onnxruntime
import pytest

from perfmodel.errors import InvalidInputError, MeasurementError
from perfmodel.profilers.steps.providers import PROVIDERS, check_used, provider_for
from perfmodel.types import Compiler


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ONNX Runtime have every provider."""
    names = [provider.ort for provider in PROVIDERS.values()]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: names)


@pytest.mark.parametrize(
    ("compiler", "name", "backend", "expected"),
    [
        (Compiler.ONNXRUNTIME, "", "cpu", "cpu"),
        (Compiler.ONNXRUNTIME, "", "cuda", "cuda"),
        (Compiler.ONNXRUNTIME, "", "rocm", "migraphx"),
        (Compiler.ONNXRUNTIME, "openvino", "cpu", "openvino"),
        (Compiler.TENSORRT, "", "cuda", "tensorrt"),
    ],
)
@pytest.mark.usefixtures("everything")
def test_each_device_has_a_usual_provider(
    compiler: Compiler, name: str, backend: str, expected: str
) -> None:
    assert provider_for(compiler, name, backend).name == expected


@pytest.mark.usefixtures("everything")
def test_a_provider_of_another_device_is_refused() -> None:
    with pytest.raises(MeasurementError, match="serves cuda devices, not cpu"):
        provider_for(Compiler.ONNXRUNTIME, "cuda", "cpu")


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "cpu"])
def test_an_absent_provider_is_refused_with_what_to_install(name: str) -> None:
    with pytest.raises(MeasurementError, match="pip install"):
        provider_for(Compiler.ONNXRUNTIME, name, "cpu")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="migraphx"):
        provider_for(Compiler.ONNXRUNTIME, "abacus", "cpu")


def test_a_silent_fall_back_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="fell back to CPUExecutionProvider"):
        check_used(PROVIDERS["cuda"], ["CPUExecutionProvider"])
    check_used(PROVIDERS["cpu"], ["CPUExecutionProvider"])
