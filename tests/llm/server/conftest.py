"""The server of a test's module, in front of a model that answers by the module's ``script``."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from MNN.llm.server.app import Server
from MNN.llm.text import load_tokenizer
from tests import zoo
from tests.llm.server.running import Scripted, served


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server]]:
    with served(Scripted(load_tokenizer(zoo.path("smollm2_gguf")), request.module.script)) as running:
        yield running


@pytest.fixture
def client(server: tuple[str, Server]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server[0]}/v1", api_key="any", max_retries=0, timeout=30) as made:
        yield made
