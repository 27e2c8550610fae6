"""Archives: their members are read as files, wherever they say that they lie."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import made_traces as made
import pytest
from made_up_profiles import archive, chakra_et, execution_trace, rocpd_database, zip_archive

from perfmodel.errors import InvalidTraceError
from perfmodel.importers.trace_files import TracedJob, import_traces
from perfmodel.traces.formats.registry import read_trace, read_traces
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import Trace

GRAPH = json.dumps(execution_trace()).encode()
KINETO = json.dumps(made.document(made.training_events(1))).encode()
OTHER_KINETO = json.dumps(made.document(made.training_events(2))).encode()
PACKERS: dict[str, Callable[[Mapping[Any, bytes]], bytes]] = {
    "tar": lambda members: archive(members, "w"),
    "tar.gz": archive,
    "zip": zip_archive,
}


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have members copied to a folder, of which nothing may be left."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def _written(folder: Path, content: bytes, name: str = "some.archive") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", PACKERS)
def test_the_only_trace_of_an_archive_is_read(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind]({"kernels/k.py": b"import triton", "run/t.json": GRAPH, "empty": b""})
    assert len(read_trace(_written(tmp_path, packed)).operators) == 2


@pytest.mark.parametrize("kind", PACKERS)
def test_members_of_every_format_are_read(tmp_path: Path, kind: str) -> None:
    """Also those that are packed themselves, and databases, which need a file of their own."""
    database = rocpd_database(tmp_path / "x.db").read_bytes()
    members = {"rank0/t.json.gz": gzip.compress(KINETO), "rank1/t.json": OTHER_KINETO,
               "x.db": database, "notes.txt": b"hello"}  # fmt: skip
    found = dict(read_traces(_written(tmp_path, PACKERS[kind](members))))
    formats = {
        name.partition(":")[2]: one.format for name, one in found.items() if isinstance(one, Trace)
    }
    assert formats == {"rank0/t.json.gz": "kineto", "rank1/t.json": "kineto", "x.db": "rocpd"}
    refused = found["some.archive:notes.txt"]
    assert isinstance(refused, InvalidTraceError)
    assert "no known trace format" in refused.message


def test_what_lies_beside_a_member_is_read_with_it(tmp_path: Path) -> None:
    """Devices of rocprofv3 stand in a table of their own, here of two runs."""
    kernels = (
        b"Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
        b'End_Timestamp\n"KERNEL_DISPATCH","Agent 4",1,1,"k",1,1000,3000\n'
    )
    agents = "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Name,Product_Name\n4,4,GPU,{},{},{}\n"
    members = {
        "a/1_kernel_trace.csv": kernels,
        "a/1_agent_info.csv": agents.format(304, "gfx942", "AMD Instinct MI300X").encode(),
        "b/1_kernel_trace.csv": kernels,
        "b/1_agent_info.csv": agents.format(104, "gfx90a", "AMD Instinct MI210").encode(),
    }
    path = _written(tmp_path, zip_archive(members))
    for folder, accelerator in (("a", "MI300X"), ("b", "MI210")):
        trace = read_trace(path, member=f"{folder}/1_kernel_trace.csv")
        assert [device.accelerator for device in trace.devices] == [accelerator]


def test_one_of_several_traces_has_to_be_named(tmp_path: Path) -> None:
    path = _written(tmp_path, archive({"a.et": chakra_et(), "b.json": KINETO}))
    with pytest.raises(InvalidTraceError, match=r"holds 2 traces: 'a.et', 'b.json'. --member NAME"):
        read_trace(path)
    assert read_trace(path, member="b.json").format == "kineto"
    with pytest.raises(InvalidTraceError, match="no member 'c'; traces in it are 'a.et', 'b.json'"):
        read_trace(path, member="c")
    with pytest.raises(InvalidTraceError, match="is no archive"):
        read_trace(_written(tmp_path, KINETO, "t.json"), member="c")


def test_all_traces_of_an_archive_become_records(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = _written(tmp_path, zip_archive({"a.json": KINETO, "b.json": OTHER_KINETO}))
    found = import_traces([path], TracedJob())
    assert {one.origin.file for one in found.kernels} == {
        "some.archive:a.json", "some.archive:b.json",
    }  # fmt: skip


def test_an_archive_without_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="1 files and no trace among"):
        read_trace(_written(tmp_path, archive({"a.txt": b"hello"})))
    with pytest.raises(InvalidTraceError, match="0 files and no trace among"):
        read_trace(_written(tmp_path, zip_archive({})))


def test_an_archive_in_an_archive_is_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, zip_archive({"in.tgz": archive({"t.json": GRAPH})}))
    with pytest.raises(InvalidTraceError, match="in.tgz is an archive in an archive"):
        read_trace(path)


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize(
    "name", ["../../outside.json", "/outside.json", "a/../../b", "C:\\t.json", "..\\t.json"]
)
def test_names_outside_of_the_archive_are_refused(tmp_path: Path, kind: str, name: str) -> None:
    path = _written(tmp_path, PACKERS[kind]({name: GRAPH}))
    with pytest.raises(InvalidTraceError, match="is named outside of the archive"):
        read_trace(path)
    assert not (tmp_path / "outside.json").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("link.json")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(InvalidTraceError, match=r"'link.json' in .* is a link or device"):
        read_trace(_written(tmp_path, packed.getvalue()))


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.json")
    link.external_attr = 0o120777 << 16
    with pytest.raises(InvalidTraceError, match="is a link or device"):
        read_trace(_written(tmp_path, zip_archive({link: b"/etc/passwd"})))


def test_encrypted_and_oddly_packed_members_of_zip_are_refused(tmp_path: Path) -> None:
    content = zip_archive({"t.json": GRAPH})
    entry = content.index(b"PK\x01\x02")
    encrypted = content[: entry + 8] + b"\x01" + content[entry + 9 :]
    with pytest.raises(InvalidTraceError, match="is encrypted"):
        read_trace(_written(tmp_path, encrypted))
    lzma = content[: entry + 10] + b"\x0e" + content[entry + 11 :]
    with pytest.raises(InvalidTraceError, match="packed by method 14, not by deflate"):
        read_trace(_written(tmp_path, lzma))


def test_archives_that_unpack_to_absurdly_much_are_refused(tmp_path: Path) -> None:
    zeros = bytes(64 * 2**20)
    for content in (gzip.compress(archive({"zeros": zeros}, "w")), zip_archive({"zeros": zeros})):
        with pytest.raises(InvalidTraceError, match="times its size"):
            read_trace(_written(tmp_path, content))
    path = _written(tmp_path, archive({"zeros": bytes(2**20)}, "w"))
    with pytest.raises(InvalidTraceError, match="more than .* GiB"):
        read_trace(path, TraceLimits(size_bytes=2**19))


def test_a_list_of_endless_members_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The end of a zip archive says how long its list of members is, which is read whole."""
    entries = bytes(5 * 2**20)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entries), 4, 0)
    with pytest.raises(InvalidTraceError, match="lists more members"):
        read_trace(_written(tmp_path, b"PK\x03\x04" + entries + end))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_archive_is_refused(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind]({"a.json": KINETO, "b.json": OTHER_KINETO})
    with pytest.raises(InvalidTraceError, match="damaged|no sound|is cut"):
        read_trace(_written(tmp_path, packed[: len(packed) // 2]))


def test_changed_archives_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(3)
    for pack in PACKERS.values():
        content = bytearray(pack({"a.json": KINETO, "b.json": b"hello"}))
        for _ in range(200):
            changed = bytearray(content)
            for _ in range(chance.randrange(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            try:
                read_trace(_written(tmp_path, bytes(changed)))
            except InvalidTraceError as error:
                assert len(error.message) < 4_000


def test_copies_that_have_no_room_are_said(
    tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *args: Any, **named: Any) -> Any:
        if copies in path.parents:
            raise OSError(28, "No space left on device")
        return opened(path, *args, **named)

    path = _written(tmp_path, archive({"t.json": GRAPH}))
    opened = Path.open
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(InvalidTraceError, match="No space left on device. TMPDIR names"):
        read_trace(path)
