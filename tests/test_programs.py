"""Sessions that run the same program are told from others."""

from __future__ import annotations

import numpy as np

from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.programs import digest_of
from tests.runtime.models import branching, convolutions


def test_digests() -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 3, 32, 32)).astype(np.float32)
    inputs = [{"x": picture} for picture in x]
    other = convolutions()
    weights = next(v for v in other.values() if v.name == "w3")
    weights.data = weights.array() * np.float32(2)
    exact, same, double = (Session(g, Config(1, "high")) for g in (convolutions(), convolutions(), other))
    digest = digest_of(exact, inputs)
    assert digest is not None
    assert digest == digest_of(same, inputs)
    assert digest_of(double, inputs) not in (None, digest)
    assert digest_of(exact, [*inputs, {"x": x[0, :, :, :16, :16]}]) is None
    rows = {"x": np.ones((3, 4), np.float32)}
    assert digest_of(Session(branching()), [rows]) is None
    for precision in ("normal", "low"):  # equal or not, as this processor computes: equal programs have equal answers
        session = Session(convolutions(), Config(1, precision))
        if digest_of(session, inputs) == digest:
            assert session.run(inputs[0])["y"].tobytes() == exact.run(inputs[0])["y"].tobytes()
