"""``mnn serve`` as a process of its own, with a trained model."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests import zoo
from tests.cli.conftest import run_command

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."


def test_other_machines_need_a_key(tmp_path: Path) -> None:
    result = run_command("serve", str(tmp_path / "none.gguf"), "--host", "0.0.0.0")
    assert result.code == 2
    assert "--api-key" in result.err
    assert run_command("serve", str(tmp_path / "none.gguf")).code == 2


def test_drafts_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    result = run_command("serve", tmp_path, "--draft", "lookup")
    assert (result.code, "writes no text; drafts would change nothing" in result.err) == (2, True)
    result = run_command("serve", zoo.path("smollm2_gguf"), "--draft", "eagle")
    assert (result.code, "there is no draft 'eagle'" in result.err) == (2, True)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a process that serves SmolLM2; it is interrupted in the end, and must end well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    model = str(zoo.path("smollm2_gguf"))
    command = [sys.executable, "-m", "MNN", "serve", model, "--port", port, "--name", "small", "--draft", "lookup"]
    group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if sys.platform == "win32" else {}
    process = subprocess.Popen(
        command,
        env={**os.environ, "MNN_API_KEY": "k"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **group,
    )
    try:
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 240
        while not healthy(address):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield address
    finally:
        process.send_signal(signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert f"{address}/" in out
    assert "Traceback" not in err


def healthy(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.real
def test_answers_of_a_trained_model(url: str) -> None:
    """An answer, a stream, JSON that fits a schema, and a key that is asked for."""
    assert httpx.get(f"{url}/v1/models").status_code == 401
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", timeout=300) as client:
        assert [model.id for model in client.models.list()] == ["small"]
        answer = client.chat.completions.create(model="small", messages=QUESTION, temperature=0)
        assert answer.choices[0].message.content == ANSWER
        chunks = list(client.chat.completions.create(model="small", messages=QUESTION, temperature=0, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
            "required": ["city", "people"],
            "additionalProperties": False,
        }
        made = client.chat.completions.create(
            model="small",
            messages=QUESTION,
            temperature=0,
            max_tokens=60,
            response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
        )
        found = json.loads(made.choices[0].message.content or "")
        assert isinstance(found["city"], str)
        assert isinstance(found["people"], int)
