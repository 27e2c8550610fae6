"""Compile the module of a program with inductor, and say first where that cannot work."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.capture.program import Program
from perfmodel.devices.cpu_facts import usable_cpus
from perfmodel.errors import MeasurementError, first_line

#: Steps that are run to compile: the first compiles forward and backward; a second shows whether
#: something (the state of an optimizer) makes it compile again.
_COMPILING_STEPS = 2


@dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    """A program whose module is compiled, already run.

    Parameters
    ----------
    compile_s : float
        Seconds until its kernels were there.
    graph_breaks : int
        Places where the compiler gave up and Python went on; each parts the graph.
    """

    program: Program
    compile_s: float
    graph_breaks: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What the record states of the compilation."""
        return (f"compile_seconds={self.compile_s:.1f}", f"graph_breaks={self.graph_breaks}")


def load_inductor() -> None:
    """Import what compiles, for which no device is needed. Compiling itself asks the device."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch._inductor.compile_fx")


@contextmanager
def inductor_program(program: Program, *, device_graphs: bool = False) -> Iterator[CompiledProgram]:
    """Compile the module of a program as ``torch.compile(model)`` does, and run it.

    The optimizer stays as it is, as in most training scripts. Kernels announce themselves to the
    profiler and are named after the operators that they fuse. Nothing compiles any more when the
    program is there: what helped to has ended.

    Parameters
    ----------
    device_graphs : bool
        ``mode="reduce-overhead"``: kernels are launched as graphs of the device.

    Raises
    ------
    MeasurementError
        No C++ compiler (CPU) or no Triton (accelerators), or a module that inductor refuses.
    """
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import config
    from torch._inductor.async_compile import shutdown_compile_workers

    _check_toolchain(program.device.type)
    threads = compile_threads(program.device.type, config.compile_threads or 1)
    torch._dynamo.reset()
    counters.clear()
    settings: dict[str, Any] = {
        "compile_threads": threads,
        "cpp.enable_kernel_profile": True,
        "cpp.descriptive_names": "original_aten",
        "triton.descriptive_names": "original_aten",
    }
    with config.patch({key: value for key, value in settings.items() if _knows(config, key)}):
        mode = "reduce-overhead" if device_graphs else "default"
        module: Any = torch.compile(program.module, dynamic=False, mode=mode)
        compiled = replace(program, module=module)
        begin_s = time.monotonic()
        try:
            for _ in range(_COMPILING_STEPS):
                compiled.step()
        except Exception as error:
            if "out of memory" in str(error).lower() or isinstance(error, MemoryError):
                raise
            raise MeasurementError(
                f"inductor cannot compile this step: {type(error).__name__}: {first_line(error)}"
            ) from error
        finally:
            if threads > 1:
                shutdown_compile_workers()  # type: ignore[no-untyped-call]
        yield CompiledProgram(
            program=compiled,
            compile_s=time.monotonic() - begin_s,
            graph_breaks=sum(counters["graph_break"].values()),
        )
    torch._dynamo.reset()


def compile_threads(device: str, configured: int, *, cores: int | None = None) -> int:
    """Return how many processes compile.

    One where the host is the device. Elsewhere half of the cores at most: the others are for what
    goes on beside.

    Parameters
    ----------
    device : str
        Its type in PyTorch's words.
    configured : int
        What inductor would take, which is ``TORCHINDUCTOR_COMPILE_THREADS`` where that is set.
    cores : int, optional
        By default those that this process may use.

    Examples
    --------
    >>> compile_threads("cpu", 16), compile_threads("cuda", 16, cores=16)
    (1, 8)
    >>> compile_threads("cuda", 4, cores=16), compile_threads("cuda", 1, cores=1)
    (4, 1)
    """
    if device == "cpu":
        return 1
    return max(1, min(configured, (cores or len(usable_cpus())) // 2))


def _knows(config: Any, key: str) -> bool:
    """Tell whether this version of inductor has a setting; names of kernels are a convenience."""
    try:
        config.get_config_copy()[key]
    except KeyError:
        return False
    return True


def _check_toolchain(device: str) -> None:
    if device == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler as error:
            raise MeasurementError(
                "inductor compiles C++ on a CPU and finds no compiler: install g++ or clang "
                "(Debian, Ubuntu: apt-get install g++), or name one in CXX."
            ) from error
        return
    from torch.utils._triton import has_triton

    if not has_triton():
        raise MeasurementError(
            f"inductor needs Triton for {device}, which cannot be imported or does not support the "
            "device: install the build of PyTorch for it, which brings Triton, or measure eager."
        )
