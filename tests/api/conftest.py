"""What tests of the interface share."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.expr.fused import loops, programs


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed later is computed by numpy: loops round otherwise, in the last place."""
    programs.forget()
    monkeypatch.setattr(programs, "prepare", lambda function: None)
    monkeypatch.setattr(loops, "COMPILE_AFTER", np.inf)
