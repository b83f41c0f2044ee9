from __future__ import annotations

from collections.abc import Iterator

import pytest

from MNN.backends.cpu.native_loop import pool


@pytest.fixture(params=["futex", "python"])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A fresh pool whose workers sleep this way; gives the way's name."""
    if request.param == "futex" and pool._syscall_address() is None:
        pytest.skip("this system has no futex")
    monkeypatch.setenv("MNN_WORKER_SLEEP", request.param)
    before, pool._STATE.pool = pool._STATE.pool, None
    yield request.param
    made, pool._STATE.pool = pool._STATE.pool, before
    if made is not None:
        assert made.stop(5.0), "workers did not end"
