"""What all tests share."""

from __future__ import annotations

import pathlib

import pytest

_WITH_TILES = ("compiler", "kernels")
"""Folders of tests that know what products on matrix units lose."""
_ANSWERS = "test_task_answer"
"""Tests of trained models that ask for answers rather than numbers."""


@pytest.fixture(autouse=True)
def _as_exact_as_fp32(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """``normal`` multiplies two bf16 parts where the processor has tiles, with errors of up to 5e-4. Tests that compare
    with fp32 to its own accuracy run as on processors without."""
    folder = request.path.relative_to(pathlib.Path(__file__).parent).parts[0]
    if folder not in _WITH_TILES and not request.node.name.startswith(_ANSWERS):
        monkeypatch.setattr("MNN.compiler.emit.amx.available", lambda target: False)
