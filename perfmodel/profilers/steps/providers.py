"""Execution providers of ONNX Runtime by short name, and what brings those that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.errors import InvalidInputError, MeasurementError, MissingExtraError
from perfmodel.types import Compiler


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One execution provider.

    Parameters
    ----------
    ort : str
        Its name in ONNX Runtime.
    backends : tuple of str
        Devices that it serves; "any" for one that PyTorch does not name.
    memory : str or None
        Kind of memory in which its inputs and outputs can stay; None: it copies them.
    install : str
        What brings it.
    """

    name: str
    ort: str
    backends: tuple[str, ...]
    memory: str | None
    install: str


#: Every provider that can be asked for. Those but the CPU's were never run by this project.
PROVIDERS = {
    one.name: one
    for one in (
        Provider(
            name="cpu",
            ort="CPUExecutionProvider",
            backends=("cpu",),
            memory=None,
            install="pip install 'perfmodel[onnx]'",
        ),
        Provider(
            name="openvino",
            ort="OpenVINOExecutionProvider",
            backends=("cpu",),
            memory=None,
            install="pip install onnxruntime-openvino in the place of onnxruntime; the compiler "
            "'openvino' measures OpenVINO itself and needs only perfmodel[openvino]",
        ),
        Provider(
            name="cuda",
            ort="CUDAExecutionProvider",
            backends=("cuda",),
            memory="cuda",
            install="pip install onnxruntime-gpu in the place of onnxruntime",
        ),
        Provider(
            name="tensorrt",
            ort="TensorrtExecutionProvider",
            backends=("cuda",),
            memory="cuda",
            install="pip install onnxruntime-gpu tensorrt in the place of onnxruntime",
        ),
        Provider(
            name="migraphx",
            ort="MIGraphXExecutionProvider",
            backends=("rocm",),
            memory=None,
            install="pip install onnxruntime-migraphx (AMD's index, repo.radeon.com) in the place "
            "of onnxruntime, with MIGraphX of the same ROCm",
        ),
        Provider(
            name="directml",
            ort="DmlExecutionProvider",
            backends=("cpu", "cuda", "rocm", "xpu"),
            memory=None,
            install="pip install onnxruntime-directml in the place of onnxruntime, on Windows",
        ),
    )
}


def known_provider(name: str) -> str:
    """Return the short name of a provider, or nothing for the usual one.

    Raises
    ------
    InvalidInputError
        An unknown name.
    """
    if name and name not in PROVIDERS:
        raise InvalidInputError(
            f"Unknown execution provider {name!r}; known: {', '.join(PROVIDERS)}.",
            allowed=tuple(PROVIDERS),
        )
    return name


def provider_for(compiler: Compiler | None, name: str, backend: str) -> Provider:
    """Return the provider that is to run a file on a device.

    Parameters
    ----------
    compiler : Compiler or None
        TensorRT is its own provider.
    name : str
        Short name; empty for the usual one: TensorRT's, else that of the device.
    backend : str
        As in :class:`~perfmodel.devices.drivers.device_facts.DeviceFacts`.

    Raises
    ------
    InvalidInputError
        An unknown name.
    MeasurementError
        A provider that the installed ONNX Runtime does not have, or that serves other devices.
    """
    usual = {"cpu": "cpu", "cuda": "cuda", "rocm": "migraphx"}
    wanted = "tensorrt" if compiler is Compiler.TENSORRT else name or usual.get(backend, "cpu")
    provider = PROVIDERS[known_provider(wanted)]
    if provider.ort not in _available():
        raise MeasurementError(
            f"The installed ONNX Runtime has no {wanted} provider ({provider.ort}): "
            f"{provider.install}."
        )
    if backend not in provider.backends:
        raise MeasurementError(
            f"The {wanted} provider of ONNX Runtime serves {' and '.join(provider.backends)} "
            f"devices, not {backend}; choose another --provider or --device."
        )
    return provider


def check_used(provider: Provider, loaded: Sequence[str]) -> None:
    """Refuse a session that fell back to another provider.

    ONNX Runtime goes on without a provider whose libraries do not load, and says so in its log
    alone.

    Raises
    ------
    MeasurementError
        The provider is not among the loaded ones.
    """
    if provider.ort not in loaded:
        raise MeasurementError(
            f"ONNX Runtime could not load {provider.ort} and fell back to {', '.join(loaded)}; the "
            f"libraries it needs are missing or of another version: {provider.install}."
        )


def _available() -> Sequence[str]:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("Profiling in ONNX Runtime", extra="onnx") from error
    found: Sequence[str] = onnxruntime.get_available_providers()
    return found
