"""Several threads that make expressions of constants at the same time."""

from __future__ import annotations

import threading

import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.expr.fused.settings import SETTINGS, lazily


@pytest.mark.parametrize("before", [False, True])
def test_the_setting_is_what_it_was_when_all_have_left(before: bool) -> None:
    F.lazy_eval(before)
    entered, second, left = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with lazily():
            entered.set()
            assert second.wait(10)
        left.set()

    def other() -> None:
        assert entered.wait(10)
        with lazily():
            second.set()
            assert left.wait(10)
            assert SETTINGS.lazy

    threads = [threading.Thread(target=run) for run in (first, other)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert SETTINGS.lazy is before
    finally:
        F.lazy_eval(False)
