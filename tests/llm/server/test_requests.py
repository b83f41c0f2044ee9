"""What requests may ask for, without a server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from MNN.llm import SamplingOptions
from MNN.llm.server import requests
from MNN.llm.server.errors import RequestError
from MNN.llm.server.responses_api.requests import response


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


@pytest.mark.parametrize(
    "field",
    [
        {"temperature": 10**400},
        {"seed": -(10**400)},
        {"logit_bias": {"\u00b2": 1}},
        {"logit_bias": {"9" * 5000: 1}},
        {"chat_template_kwargs": {"messages": []}},
        {"chat_template_kwargs": {"tools": []}},
        {"chat_template_kwargs": {"self": 1}},
        {"chat_template_kwargs": {"chat_template": 5}},
    ],
    ids=lambda field: next(iter(field)),
)
def test_what_cannot_be_used_is_named(field: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=f"^{next(iter(field))}: "):
        requests.chat({"model": "m", "messages": [{"role": "user", "content": "a"}], **field})


def test_limits_are_told_in_all_their_digits() -> None:
    with pytest.raises(RequestError, match=r"^seed: 9223372036854775808 is more than 9223372036854775807$"):
        requests.completion({"model": "m", "prompt": "a", "seed": 1 << 63})
    with pytest.raises(RequestError, match=r"^n: 10{56}\.\.\. is more than 16$"):
        requests.completion({"model": "m", "prompt": "a", "n": 10**400})


def test_names_of_allowed_tools_are_texts() -> None:
    tool = {"type": "function", "name": "f"}
    choice = {"type": "allowed_tools", "tools": [{"name": []}]}
    assert response({"model": "m", "input": "a", "tools": [tool], "tool_choice": choice}).chat.tools == []


def test_no_digit_of_a_seed_is_lost() -> None:
    asked = requests.completion({"model": "m", "prompt": "a", "seed": 2**53 + 1})
    assert asked.sampling["seed"] == 2**53 + 1
