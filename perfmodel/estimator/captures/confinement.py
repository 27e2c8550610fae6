"""Keep a process that builds models from files, folders, the network and other programs.

What a request says of a model is data; the libraries that build models would follow some of it to
files or to the network. The checks of a configuration refuse that by name; this is the wall behind
them: from :func:`confine` on, code of this process may read the installed libraries and little
else, whatever a library was told. Hooks of ``sys.addaudithook`` cannot be taken off again.
What memory it takes is bounded too.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Return what the process holds in memory; 0 where the system does not say."""
    return _field("VmRSS:")


def peak_bytes() -> int:
    """Return the most that the process held since a limit was last set, or since it began."""
    return _field("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def limited_memory(extra_bytes: int) -> Iterator[None]:
    """Let the process take so much more than it has; allocations beyond fail.

    What is written to counts, not what is mapped: libraries map far more. Where the system has no
    such limit there is none.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held = _field("VmData:")
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # the peak counts from here
    limit = held + extra_bytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if held:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _field(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


#: What libraries look at of the machine.
_OF_THE_MACHINE = ("/dev/null", "/dev/urandom", "/proc/self/", "/proc/cpuinfo", "/proc/meminfo",
                   "/sys/devices/system/", "/sys/fs/cgroup/")  # fmt: skip

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

#: Never, whatever the arguments.
_NEVER = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chdir",
    "shutil.rmtree", "shutil.copyfile", "shutil.move",
)  # fmt: skip


def confine() -> None:
    """Refuse from now on what building a model by its structure does not need.

    Whatever is refused raises :class:`PermissionError`.
    """
    roots = _library_folders()
    # Found by writing a file; libraries ask for it while they are imported and then leave it alone.
    # PyTorch makes a folder in it for what it compiles, unless it is told of one that is there.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()
    checks: Mapping[str, Callable[..., None]] = MappingProxyType(
        {
            **{event: partial(_refuse, event) for event in _NEVER},
            "open": partial(_check_open, roots),
            "os.listdir": partial(_check_read, roots),
            "os.scandir": partial(_check_read, roots),
            "os.mkdir": partial(_check_made, roots),
        }
    )

    def hook(event: str, args: tuple[Any, ...]) -> None:
        check = checks.get(event)
        if check is not None:
            check(*args)

    sys.addaudithook(hook)


def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names]
    found += [str(Path(__file__).resolve().parents[2]), *_installed_beside()]
    return tuple({os.path.join(os.path.realpath(folder), "") for folder in found if folder})


def _installed_beside() -> list[str]:
    """Return where libraries lie that are on the path without being below one of its prefixes."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def _is_below(roots: tuple[str, ...], path: str) -> bool:
    return os.path.join(os.path.realpath(path), "").startswith(roots)


def _check_open(roots: tuple[str, ...], path: Any, mode: Any, flags: Any) -> None:
    if isinstance(path, int):
        return
    name = os.fsdecode(path)
    if isinstance(flags, int) and flags & _WRITES and name != "/dev/null":
        _check_made(roots, name)
    else:
        _check_read(roots, name)


def _check_read(roots: tuple[str, ...], path: Any, *_: Any) -> None:
    if path is None or isinstance(path, int):
        return
    name = os.fsdecode(path)
    if not (name.startswith(_OF_THE_MACHINE) and ".." not in name) and not _is_below(roots, name):
        _refuse("reading files and folders")


def _check_made(roots: tuple[str, ...], path: Any, *_: Any) -> None:
    # Compiled modules are kept beside their sources.
    name = os.fsdecode(path)
    if not (_is_below(roots, name) and "__pycache__" in name):
        _refuse("writing files and folders")


def _refuse(event: str, *_: Any) -> None:
    raise PermissionError(f"Building a model by its structure needs no {event}.")
