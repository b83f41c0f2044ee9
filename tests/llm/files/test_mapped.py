"""Files in memory that is given back, while others are mapped."""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from MNN.llm.files import mapped


def test_memory_is_given_back_while_others_map_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As threads of a server do, one of which opens a model where another reads a prompt."""
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    held: list[mapped.Array] = []

    class Growing(weakref.WeakSet[mmap.mmap]):
        def __iter__(self) -> Iterator[mmap.mmap]:
            for found in super().__iter__():
                yield found
                if len(held) < 4:
                    held.append(mapped.map_file(path))

    monkeypatch.setattr(mapped, "_MAPS", Growing())
    held.append(mapped.map_file(path))
    mapped.give_back()
    assert len(held) == 4
    assert [bytes(each) for each in held] == [b"weights"] * 4
