"""A server on a port of this machine, in a thread, in front of a scripted model or a real one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn

from MNN.errors import MNNError
from MNN.llm.answer import Cost
from MNN.llm.sampling import LogProbability, StopStrings, log_probability
from MNN.llm.server.app import Server, Settings
from MNN.llm.text import Tokenizer

NAME = "test-model"


@dataclass
class Scripted:
    """Writes what a function makes of a prompt, token by token, ``pause`` seconds for each."""

    tokenizer: Tokenizer
    script: Callable[[str, dict[str, Any]], str]
    pause: float = 0.0
    max_length: int = 2000
    written: int = 0
    running: int = 0
    most: int = 0

    def stream(self, messages: Any, **options: Any) -> ScriptedAnswer:
        return ScriptedAnswer(self, list(messages), options)


@dataclass
class ScriptedAnswer:
    model: Scripted
    prompt: list[int]
    options: dict[str, Any]
    ended: str = ""
    tokens: list[int] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    probabilities: list[LogProbability] = field(default_factory=list)

    def cancel(self) -> None:
        self.ended = self.ended or "cancelled"

    def __iter__(self) -> Iterator[str]:
        tokenizer, options = self.model.tokenizer, self.options
        text = self.model.script(tokenizer.decode(self.prompt), options)
        stream, stops = tokenizer.stream(), StopStrings(options["stop"])
        self.cost.prompt = len(self.prompt)
        self.model.running += 1
        self.model.most = max(self.model.most, self.model.running)
        try:
            for token in tokenizer.encode(text, add_special_tokens=False):
                time.sleep(self.model.pause)
                if self.ended:
                    return
                self.tokens.append(token)
                self.cost.written += 1
                self.model.written += 1
                if options["logprobs"] is not None:
                    logits = np.zeros(100_000, np.float32)
                    logits[token] = 9
                    self.probabilities.append(log_probability(logits, token, options["logprobs"]))
                piece = stops.push(stream.push(token))
                self.ended = "stop" if stops.found else self.ended
                if options["max_tokens"] is not None and len(self.tokens) >= options["max_tokens"]:
                    self.ended = self.ended or "length"
                if piece:
                    yield piece
                if self.ended:
                    return
            self.ended = "stop"
            rest = stops.push(stream.finish()) + stops.finish()
            if rest:
                yield rest
        finally:
            self.model.running -= 1


def failing(prompt: str, options: dict[str, Any]) -> str:
    """A script for models that break."""
    if "crash" in prompt:
        raise ZeroDivisionError("inside")
    if "refuse" in prompt:
        raise MNNError("the model cannot")
    return "fine"


@contextlib.contextmanager
def served(model: Any, **settings: Any) -> Iterator[tuple[str, Server]]:
    """The address of a running server, and its object. It is shut down in the end."""
    server = Server(model, Settings(NAME, **settings))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(
        server.application(), host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=3, ws="none"
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not running.started:
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        running.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
