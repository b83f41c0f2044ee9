"""What the model thought of the tokens of plain completions, as the ``openai`` client has it."""

from __future__ import annotations

import openai
import pytest

from tests.llm.server.running import NAME, Scripted, served
from tests.llm.server.test_server import script, tokenizer

pytestmark = pytest.mark.real


def test_log_probabilities_of_plain_completions() -> None:
    """Tokens lie where the text has them; those that are a part of a character are told as bytes."""
    with (
        served(Scripted(tokenizer(), script)) as (url, _),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any") as client,
    ):
        check(client)


def check(client: openai.OpenAI) -> None:
    (choice,) = client.completions.create(model=NAME, prompt="Say it.", logprobs=2).choices
    told = choice.logprobs
    assert told is not None
    tokens, offsets, values, best = told.tokens, told.text_offset, told.token_logprobs, told.top_logprobs
    assert tokens and offsets and values and best  # noqa: PT018 - the lists may be missing
    assert any(token.startswith("bytes:\\x") for token in tokens)
    for token, begin in zip(tokens, offsets, strict=True):
        if not token.startswith("bytes:"):
            assert choice.text[begin : begin + len(token)] == token
    assert all(value < 0 for value in values)
    assert all(len(some) == 2 and token in some for token, some in zip(tokens, best, strict=True))
    noted = [c.choices[0].logprobs for c in client.completions.create(
        model=NAME, prompt="Say it.", logprobs=2, stream=True)]  # fmt: skip
    for name in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
        assert [one for logs in noted if logs for one in getattr(logs, name)] == getattr(told, name)
