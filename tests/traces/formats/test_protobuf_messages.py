"""Protobuf messages without generated code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from made_up_profiles import chakra_et, message, pftrace, xplane

from perfmodel.errors import MissingExtraError
from perfmodel.traces.formats.protobuf_messages import message_classes
from perfmodel.traces.formats.registry import read_trace


def test_fields_are_read_and_others_passed_over() -> None:
    classes = message_classes(
        {
            "Inner": {"text": (1, "bytes", False)},
            "Outer": {"number": (2, "int64", False), "inner": (3, "Inner", True)},
        }
    )
    inner = message([(1, b"\xff\xfe")])
    found = classes["Outer"].FromString(message([(2, 7), (3, inner), (3, inner), (9, b"else")]))
    assert (found.number, [one.text for one in found.inner]) == (7, [b"\xff\xfe"] * 2)


@pytest.mark.parametrize(
    "content", [chakra_et(), xplane(), pftrace()], ids=["chakra", "xplane", "pftrace"]
)
def test_without_protobuf_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    for name in ("google.protobuf", "google.protobuf.message"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="perfmodel\\[onnx\\]"):
        read_trace(path)
