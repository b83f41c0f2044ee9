"""A server on a port of this machine, in a thread, in front of a scripted model or a real one."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import uvicorn

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.llm.engine.pages import PagePool
from MNN.llm.engine.turns import Turns
from MNN.llm.generation import Generation
from MNN.llm.models.cache import CacheForm
from MNN.llm.sampling import SamplingOptions, log_probability
from MNN.llm.server.app import Server, Settings
from MNN.llm.text import Tokenizer

NAME = "test-model"


class ScriptedDecoder(PagedDecoder):
    """Computes nothing, ``pause`` seconds for each step; pages are taken and given back as ever."""

    def __init__(self, pause: float, pages: int) -> None:
        self.pause, self.max_length, self.cache = pause, None, CacheForm(pages=pages, entries=pages)
        self.model: Any = types.SimpleNamespace(state=None, outputs=())
        self.pools, self._windows, self._states = [PagePool(pages)], [0], [[]]
        self._told, self._switch, self.turns = False, 0, Turns()
        self.recurrent, self.slots = [], PagePool(0)
        self.steps: list[list[int]] = []
        """How many tokens each text went on by."""

    def _run(self, works: Sequence[Work], total: int) -> list[np.ndarray]:
        time.sleep(self.pause)
        self.steps.append([len(work.tokens) for work in works])
        for work in works:
            work.text.lists[0].grow(len(work.text.tokens) + len(work.tokens))
        self._copy_shared(works, [len(work.text.tokens) for work in works])
        for work in works:
            work.text.tokens += work.tokens
        return [np.zeros((work.rows, 1), np.float32) for work in works]


class Scripted:
    """Writes what a function makes of a prompt, token by token."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        script: Callable[[str, dict[str, Any]], str],
        pause: float = 0.0,
        pages: int = 512,
        max_length: int = 2000,
    ) -> None:
        self.tokenizer, self.script, self.max_length = tokenizer, script, max_length
        self.scripted = ScriptedDecoder(pause, pages)
        self.decoder: Decoder = self.scripted
        self.written = 0
        self.adapters: Sequence[str] = ()

    def checked(self, tokens: Iterable[Any], where: str = "") -> list[int]:
        return list(tokens)

    def generation(self, tokens: Sequence[int], **options: Any) -> Generation:
        most = min(options["max_tokens"] or self.max_length, self.max_length - len(tokens))
        sampling = SamplingOptions()
        return ScriptedGeneration(
            prompt=tokens, tokenizer=self.tokenizer, options=sampling, most=most, stop=options["stop"],
            logprobs=options["logprobs"], model=self, asked=options,
        )  # fmt: skip


@dataclass(eq=False, kw_only=True)
class ScriptedGeneration(Generation):
    model: Scripted
    asked: dict[str, Any]

    @functools.cached_property
    def scripted(self) -> list[int]:
        text = self.model.script(self.tokenizer.decode(self.prompt), self.asked)
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _choose(self, logits: np.ndarray, drawn: tuple[int, np.ndarray] | None) -> int:
        if len(self.tokens) == len(self.scripted):
            return min(self.tokenizer.stop_ids)
        token = self.scripted[len(self.tokens)]
        self.model.written += 1
        if self.logprobs is not None:
            logits = np.zeros(100_000, np.float32)
            logits[token] = 9
            self.probabilities.append(log_probability(logits, token, self.logprobs))
        return token


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
