"""Features lent by ``MNN_TARGET`` are chosen by and not used (plain code itself: ``test_instructions.py``)."""

from __future__ import annotations

import platform

import pytest

from MNN.backends.cpu.targets import host_target
from MNN.errors import UnsupportedError

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86's instructions")


def test_what_is_lent_is_chosen_by_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+avxvnniint8,+avxifma")
    target = host_target()
    assert target.has("avxvnniint8")
    lent = set(target.emulated)
    assert lent <= {"avxvnniint8", "avxifma"}
    assert not lent.intersection(target.instructions)
    assert not any(f"+{f}" in target.feature_string.split(",") for f in lent)
    monkeypatch.delenv("MNN_TARGET")
    assert target.key() != host_target().key()


def test_a_feature_that_is_there_can_be_emulated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = next((f for f in ("avx512vnni", "avxvnni") if host_target().has(f)), None)
    name = "avx512" if feature == "avx512vnni" else "avx2"
    if feature is not None:
        monkeypatch.setenv("MNN_TARGET", f"{name},-{feature},+{feature}")
        assert feature in host_target().emulated


def test_what_cannot_be_emulated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+warp-drive")
    with pytest.raises(UnsupportedError, match="warp-drive cannot be emulated; known: amx-bf16"):
        host_target()
