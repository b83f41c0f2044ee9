"""PyMNN's interface to language models: :func:`create`, :class:`Llm`, :class:`Context`, :class:`LlmStatus`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from MNN.errors import MNNError, UnsupportedError
from MNN.expr.build import leaf
from MNN.expr.var import Var
from MNN.llm.answer import Answer
from MNN.llm.embedder import Embedder, load_embedder
from MNN.llm.language_model import LanguageModel, load
from MNN.llm.sampling import SamplingOptions
from MNN.runtime.config import processors

MOST = 512
"""Tokens of an answer unless ``max_new_tokens`` says otherwise, as in the official engine."""
_SETTINGS = {
    "max_new_tokens", "thread_num", "precision", "backend_type", "sampler_type", "temperature", "topK", "topP", "minP",
    "tfsZ", "typical", "penalty", "reuse_kv", "system_prompt", "use_template", "seed", "jinja", "max_all_tokens",
    "literal",
}  # fmt: skip
_OURS = {
    "temperature": "temperature", "topK": "top_k", "topP": "top_p", "minP": "min_p", "tfsZ": "tail_free",
    "typical": "typical", "penalty": "repetition_penalty", "seed": "seed",
}  # fmt: skip


class LlmStatus(IntEnum):
    """Where an answer stands."""

    NOT_LOADED = -1
    RUNNING = 0
    NORMAL_FINISHED = 1
    MAX_TOKENS_FINISHED = 2
    USER_CANCEL = 3
    INTERNAL_ERROR = 4
    TIMEOUT = 5

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __repr__ = __str__


@dataclass
class Context:
    """What the last answer was, and what it cost; times are microseconds."""

    prompt_len: int = 0
    gen_seq_len: int = 0
    all_seq_len: int = 0
    end_with: str = ""
    load_us: int = 0
    vision_us: int = 0
    audio_us: int = 0
    prefill_us: int = 0
    decode_us: int = 0
    sample_us: int = 0
    pixels_mp: float = 0.0
    audio_input_s: float = 0.0
    current_token: int = 0
    history_tokens: list[int] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    generate_str: str = ""
    status: LlmStatus = LlmStatus.NOT_LOADED

    def refresh(self) -> None:
        """Nothing to do: what is here is what is known."""

    def update(self, data_dict: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Sets several at once."""
        for name, value in {**(data_dict or {}), **kwargs}.items():
            if name not in vars(self):
                raise MNNError(f"a context has no '{name}'; it has {', '.join(vars(self))}")
            setattr(self, name, LlmStatus(value) if name == "status" else value)


class Llm:
    """A language model as PyMNN has it. Made by :func:`create`; :meth:`load` reads the files."""

    def __init__(self, path: str, embeds: bool = False) -> None:
        self._path, self._embeds, self._settings = path, embeds, dict[str, Any]()
        self._embedder: Embedder | None = None
        self._model: LanguageModel | None = None
        self._context = Context()
        self._stream = sys.stdout
        self._end_with = "\n"
        self._loras: list[str | None] = []
        """Folders of adapters, by their numbers less 1; None for those that are released."""
        self._selected = ""

    @property
    def context(self) -> Context:
        """What the last answer was, and what it cost."""
        return self._context

    def load(self) -> None:
        """Opens the model. Raises :class:`MNNError` where that is impossible."""
        begin = time.perf_counter()
        self._open({})
        self._loras, self._selected = [], ""
        self._context.load_us = _microseconds(time.perf_counter() - begin)
        self._context.status = LlmStatus.RUNNING

    def _open(self, adapters: Mapping[str, str]) -> None:
        threads = self._settings.get("thread_num")
        levels = {"low": "low", "high": "high", "normal": "normal"}
        precision = levels.get(str(self._settings.get("precision", "normal")), "normal")
        most = self._settings.get("max_all_tokens")
        count = processors() if threads is None else threads
        if self._embeds:
            self._embedder = load_embedder(self._path, count, precision)
        else:
            self._model = load(self._path, count, precision, most, adapters=adapters)

    def set_config(self, config: Mapping[str, Any] | str) -> bool:
        """Settings by the official engine's names, a dict or its JSON; ``thread_num`` and ``precision`` count when the
        model is loaded. False where one of them is not known here; the others are taken. Raises :class:`MNNError` for
        what are no settings, and for numbers that cannot be used; none is taken then."""
        try:
            given = json.loads(config) if isinstance(config, str) else config
        except (ValueError, RecursionError) as error:
            raise MNNError(f"settings are a dict or its JSON: {error}") from error
        if not isinstance(given, Mapping):
            raise MNNError(f"settings are a dict or its JSON, not {type(given).__name__}")
        self._settings.update({name: _setting(name, value) for name, value in given.items() if name in _SETTINGS})
        return all(name in _SETTINGS for name in given)

    def apply_chat_template(self, prompt: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
        """The text of a question, a message or a conversation, as the model was trained on it."""
        return self._loaded().tokenizer.apply_chat_template(self._messages(prompt), add_generation_prompt=True)

    def _messages(self, prompt: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The conversation that these are, with the system's prompt."""
        if isinstance(prompt, str):
            prompt = {"role": "user", "content": prompt}
        messages = [prompt] if isinstance(prompt, Mapping) else prompt
        if not isinstance(messages, list | tuple) or not all(isinstance(one, Mapping) for one in messages):
            raise MNNError(f"a text, a message or a list of messages is expected, not {prompt!r:.60}")
        system = self._settings.get("system_prompt")
        if system and messages and messages[0].get("role") != "system":
            messages = [{"role": "system", "content": system}, *messages]
        return list(messages)

    def tokenizer_encode(self, prompt: str | Mapping[str, Any]) -> list[int]:
        """The tokens of a text, special tokens being those that stand in it."""
        if isinstance(prompt, Mapping):
            if set(prompt) - {"text"}:
                raise UnsupportedError("pictures and sound are not understood yet; give a text")
            prompt = str(prompt.get("text", ""))
        return self._loaded().tokenizer.encode(prompt, add_special_tokens=False)

    def tokenizer_decode(self, token: int) -> str:
        """The text of one token."""
        return self._loaded().tokenizer.decode([token])

    def forward(self, input_ids: Sequence[int]) -> Var:
        """The logits behind the last of these tokens, which follow those of the calls before (:meth:`reset` forgets
        them), ``[1, 1, vocabulary]``."""
        model = self._loaded()
        text = model.conversation
        model.decoder.adapt(text, self._selected)
        logits = model.decoder.feed(text, model.checked(input_ids))
        self._context.all_seq_len = len(text.tokens)
        self._context.history_tokens = list(text.tokens)
        return leaf(np.ascontiguousarray(logits[None]))

    def generate(self, input_ids: Sequence[int], max_new_tokens: int = 0) -> list[int]:
        """The tokens of the answer to a prompt of these."""
        with self._running():
            answer = self._answer(self._loaded().checked(input_ids), max_new_tokens)
            self._finish(answer, "")
        return list(answer.tokens)

    def response(self, prompt: str | Mapping[str, Any], stream: bool = False, max_new_tokens: int = -1) -> str:
        """The answer to a question; ``stream`` also prints it as it is written."""
        if isinstance(prompt, Mapping):
            prompt = str(prompt.get("text", "")) if set(prompt) <= {"text"} else _no_pictures()
        model = self._loaded()
        templated = self._settings.get("use_template", True) and model.tokenizer.chat_template is not None
        model.tokenizer.read_literally(bool(self._settings.get("literal")))
        tokens = model.tokenizer.prompt(self._messages(prompt)).tokens if templated else self.tokenizer_encode(prompt)
        with self._running():
            answer = self._answer(tokens, max_new_tokens)
            for piece in answer:
                if stream:
                    print(piece, end="", file=self._stream, flush=True)
            if stream:
                print(end=self._end_with, file=self._stream, flush=True)
            self._finish(answer, self._end_with if stream else "")
        return answer.text

    def generate_init(self, stream: Any = None, end_with: str | None = None) -> None:
        """Where answers are printed and what is printed behind them; what is known of the last one is forgotten."""
        self._stream = sys.stdout if stream is None else stream
        self._end_with = "\n" if end_with is None else end_with
        context = self._context
        context.output_tokens, context.generate_str, context.gen_seq_len = [], "", 0
        context.prefill_us = context.decode_us = context.sample_us = 0
        context.status = LlmStatus.RUNNING

    def stoped(self) -> bool:
        """Whether the last answer has ended."""
        return self._context.status is not LlmStatus.RUNNING

    def reset(self) -> None:
        """Forgets what was said."""
        self._loaded().reset()
        self._context.history_tokens, self._context.all_seq_len = [], 0

    def get_log(self) -> str:
        """Empty: nothing is logged."""
        return ""

    def txt_embedding(self, prompt: str) -> Var:
        """The vector of a text, ``[1, width]``, by a model that was made with ``embedding_model``."""
        if self._embedder is None:
            what = "call load() first" if self._embeds else "make it with create(path, embedding_model=True)"
            raise MNNError(f"this model gives no embeddings; {what}")
        return leaf(np.ascontiguousarray(self._embedder.embed([prompt])))

    def apply_lora(self, lora_path: str) -> int:
        """Puts an adapter (a folder as PEFT saves it) beside the model and has it write from now on; its number, for
        :meth:`select_module`. Raises :class:`MNNError` for an adapter of another model."""
        name, number = f"lora{len(self._loras) + 1}", len(self._loras) + 1
        try:
            self._loaded().add_adapter(name, lora_path)
        except MNNError:  # it has to be opened for adapters, or for more of them
            folders = {f"lora{n}": folder for n, folder in enumerate(self._loras, 1) if folder is not None}
            self._open({**folders, name: lora_path})
        self._loras.append(lora_path)
        self._selected = name
        return number

    def select_module(self, module_index: int) -> bool:
        """Which adapter writes from now on, by its number; 0: the model by itself. False where there is no such one."""
        if not self._is_module(module_index):
            return False
        self._selected = f"lora{module_index}" if module_index else ""
        return True

    def release_module(self, module_index: int) -> bool:
        """Forgets an adapter, by its number. False where there is no such one; the model itself stays."""
        if module_index == 0 or not self._is_module(module_index):
            return False
        name = f"lora{module_index}"
        self._loaded().remove_adapter(name)
        self._loras[module_index - 1] = None
        if self._selected == name:
            self._selected = ""
        return True

    def _is_module(self, number: int) -> bool:
        return number == 0 or (0 < number <= len(self._loras) and self._loras[number - 1] is not None)

    def _loaded(self) -> LanguageModel:
        if self._model is None:
            raise MNNError(
                "this model writes no text" if self._embeds else "the model is not loaded yet; call load() first"
            )
        return self._model

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """While an answer is written. One that Ctrl-C or an error ends has ended, too."""
        self._context.status = LlmStatus.RUNNING
        try:
            yield
        except KeyboardInterrupt:
            self._context.status = LlmStatus.USER_CANCEL
            raise
        except BaseException:
            self._context.status = LlmStatus.INTERNAL_ERROR
            raise

    def _answer(self, tokens: list[int], most: int) -> Answer:
        settings = self._settings
        wanted = _whole("max_new_tokens", most)
        if wanted <= 0:
            wanted = settings.get("max_new_tokens", MOST)
        sampling = {ours: settings[name] for name, ours in _OURS.items() if name in settings}
        if settings.get("sampler_type") == "greedy" or not sampling:
            sampling = {"temperature": 0.0}
        else:
            sampling.setdefault("temperature", 1.0)
        return self._loaded().stream(tokens, wanted if wanted > 0 else None, adapter=self._selected, **sampling)

    def _finish(self, answer: Answer, end: str) -> None:
        answer.read()
        context, cost = self._context, answer.cost
        context.prompt_len, context.gen_seq_len = cost.prompt, cost.written
        context.history_tokens = [*answer.prompt, *answer.tokens]
        context.all_seq_len, context.output_tokens = len(context.history_tokens), list(answer.tokens)
        context.current_token = answer.tokens[-1] if answer.tokens else 0
        context.generate_str, context.end_with = answer.text, end
        times = cost.reading, cost.writing, cost.choosing
        context.prefill_us, context.decode_us, context.sample_us = map(_microseconds, times)
        full = answer.ended == "length"
        context.status = LlmStatus.MAX_TOKENS_FINISHED if full else LlmStatus.NORMAL_FINISHED


def create(config_path: str | os.PathLike[str], embedding_model: bool = False) -> Llm:
    """A model that :meth:`Llm.load` opens: a Hugging Face folder, its ``config.json``, or a .gguf file;
    ``embedding_model``: one that embeds texts."""
    return Llm(os.fspath(config_path), embedding_model)


def _setting(name: str, value: Any) -> Any:
    """A setting that can be used. MNNError for others."""
    if name in _OURS:
        SamplingOptions(**{_OURS[name]: value})
    elif name == "max_new_tokens" or (name in ("thread_num", "max_all_tokens") and value is not None):
        return _whole(name, value)
    elif name == "system_prompt" and not isinstance(value, str):
        raise MNNError(f"system_prompt is {value!r:.60}; a text is expected")
    return value


def _whole(name: str, value: Any) -> int:
    """A whole number; programs also give it as a text or a float."""
    try:
        found = int(value)
        if not isinstance(value, float) or found == value:
            return found
    except (ArithmeticError, TypeError, ValueError):
        pass
    raise MNNError(f"{name} is {value!r:.60}; a whole number is expected")


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _no_pictures() -> str:
    raise UnsupportedError("pictures and sound are not understood yet; give a text")


__all__ = ["Context", "Llm", "LlmStatus", "create"]
