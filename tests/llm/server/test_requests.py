"""What requests may ask for, without a server."""

from __future__ import annotations

import dataclasses

from MNN.llm import SamplingOptions
from MNN.llm.server import requests


def test_all_ways_to_sample_can_be_asked_for() -> None:
    told = {f.name: 1.5 if isinstance(f.default, float) else 3 for f in dataclasses.fields(SamplingOptions)}
    told |= dict.fromkeys(("top_p", "min_p", "typical", "tail_free"), 0.5)
    for name in ("order", "dry_breakers", "logit_bias"):  # of no use, or told by ids
        del told[name]
    body = {"typical_p" if name == "typical" else name: value for name, value in told.items()}
    asked = requests.completion({"model": "m", "prompt": "a", "logit_bias": {"7": -2}, **body})
    options = SamplingOptions(**asked.sampling)
    assert {name: getattr(options, name) for name in told} == told
    assert options.logit_bias == {7: -2.0}
