"""The short way to a language model: :func:`load` a file, :meth:`LanguageModel.stream` an answer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.llm.answer import Answer
from MNN.llm.beams import Beam, BeamWriter, Search
from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.kept import fingerprint, load_text, save_text
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.engine.paged import PagedDecoder, PagedText
from MNN.llm.engine.pages import NoPagesError
from MNN.llm.files import open_weights
from MNN.llm.files.adapters import read_adapter
from MNN.llm.files.gguf.reader import parsed_once
from MNN.llm.generation import Generation
from MNN.llm.models.families import usual
from MNN.llm.models.weights import as_number
from MNN.llm.sampling import SamplingOptions
from MNN.llm.sampling.grammar import Grammar
from MNN.llm.sampling.penalties import PENALTIES
from MNN.llm.speculation import Drafter, drafter_of
from MNN.llm.speculation.heads import Heads, heads_of, open_heads
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.runtime.config import Config, processors
from MNN.runtime.gc_pause import uninterrupted

Messages = str | Sequence[Mapping[str, Any]]
"""A question, or a conversation: ``{"role": "user", "content": "..."}`` and so on."""


class LanguageModel:
    """A model with its tokenizer. It keeps the last conversation: what a new prompt begins with alike is not computed
    again."""

    def __init__(
        self, decoder: Decoder, tokenizer: Tokenizer, config: Mapping[str, object], source: Path | None = None
    ) -> None:
        """``source``: where its tensors are, for adapters that come later."""
        self.decoder, self.tokenizer, self.config, self._source = decoder, tokenizer, config, source
        self.conversation = decoder.text()
        """What the caches hold."""
        self.heads: Heads | None = None
        """What was trained to draft for this model, where it was loaded with such heads."""
        self._whose: str | None = None

    @property
    def max_length(self) -> int:
        """How many tokens a conversation may have."""
        assert self.decoder.max_length is not None
        return self.decoder.max_length

    def prompt(self, messages: Messages, tools: Sequence[Mapping[str, Any]] | None = None, **values: Any) -> list[int]:
        """The tokens of a conversation, as the model's chat template writes it, up to where its answer begins. A model
        without a template is asked with plain text. ``values``: what else the template takes."""
        if isinstance(messages, str):
            if self.tokenizer.chat_template is None and not tools and not values:
                return self.tokenizer.encode(messages)
            messages = [{"role": "user", "content": messages}]
        return self.tokenizer.prompt(messages, tools, **values).tokens

    def stream(
        self,
        messages: Messages | Sequence[int],
        max_tokens: int | None = None,
        stop: Sequence[str] | str = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: Mapping[str, Any] | None = None,
        logprobs: int | None = None,
        schema: Mapping[str, Any] | None = None,
        draft: str | LanguageModel | Drafter | None = None,
        adapter: str = "",
        **sampling: Any,
    ) -> Answer:
        """The answer, to be iterated over: pieces of text as they are written.

        ``messages``: a question, a conversation, or the tokens of a prompt. ``max_tokens``: of the answer, by default
        what the model has room for. ``stop``: texts that end it. ``tools``: functions in JSON schema; ``template``:
        what else the chat template takes (``{"enable_thinking": False}``). ``logprobs``: how many of the most probable
        tokens to note for each (0: only the chosen one). ``schema``: a JSON schema that the answer fits. ``draft``:
        what proposes tokens, of which several are then computed in one run: ``"lookup"`` (what followed the last words
        where they stood before), ``"heads"`` (those that the model was loaded with), a smaller model with the same
        tokens, or a :class:`MNN.llm.speculation.Drafter`; the
        answer is the one that would be written without. ``adapter``: the name of one that the model was loaded with,
        which writes it. ``sampling``: those of :class:`MNN.llm.SamplingOptions`; by
        default the most probable token is taken.

        >>> for piece in llm.stream("Why is the sky blue?"):  # doctest: +SKIP
        ...     print(piece, end="")
        """
        tokens = self._tokens(messages, tools, template or {})
        wanted = self._wanted(tokens, max_tokens, stop, logprobs, schema, adapter, sampling)
        drafter = None if draft is None else drafter_of(draft, self.tokenizer, self.heads)
        return Answer(decoder=self.decoder, history=self.conversation, drafter=drafter, **wanted)

    def generation(
        self,
        tokens: Sequence[int],
        max_tokens: int | None = None,
        stop: Sequence[str] | str = (),
        logprobs: int | None = None,
        schema: Mapping[str, Any] | None = None,
        adapter: str = "",
        **sampling: Any,
    ) -> Generation:
        """The same answer to the ``tokens`` of a prompt, for a :class:`MNN.llm.engine.scheduler.Scheduler` to write it
        beside others."""
        known = self.checked(tokens)
        return Generation(**self._wanted(known, max_tokens, stop, logprobs, schema, adapter, sampling))

    def _wanted(
        self,
        tokens: Sequence[int],
        max_tokens: int | None,
        stop: Sequence[str] | str,
        logprobs: int | None,
        schema: Mapping[str, Any] | None,
        adapter: str,
        sampling: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The fields of a generation."""
        room = self.max_length - len(tokens)
        if room < 1:
            raise MNNError(
                f"the prompt has {len(tokens)} tokens; the model has room for {self.max_length}, answer included. "
                "Shorten the conversation, or load the model with a larger max_length"
            )
        if max_tokens is not None and (not isinstance(max_tokens, int | np.integer) or max_tokens < 1):
            raise MNNError(
                f"max_tokens is {max_tokens!r:.60}; a whole number is expected, and an answer has one token at least"
            )
        if adapter not in ("", *self.adapters):
            raise MNNError(f"there is no adapter {adapter!r:.60}; the model has {', '.join(self.adapters) or 'none'}")
        options = SamplingOptions(**{"temperature": 0.0, **_known(sampling)})
        self.checked(options.logit_bias, "logit_bias: ")
        return {
            "prompt": tokens,
            "adapter": adapter,
            "tokenizer": self.tokenizer,
            "options": options,
            "most": room if max_tokens is None else min(max_tokens, room),
            "stop": [stop] if isinstance(stop, str) else list(stop),
            "logprobs": logprobs,
            "grammar": None if schema is None else Grammar.of_schema(schema, self.tokenizer),
        }

    def answer(self, messages: Messages | Sequence[int], **options: Any) -> str:
        """The whole answer; arguments are those of :meth:`stream`."""
        return self.stream(messages, **options).read()

    def beams(
        self,
        messages: Messages | Sequence[int],
        count: int = 4,
        max_tokens: int | None = None,
        stop: Sequence[str] | str = (),
        length_penalty: float = 1.0,
        early: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        adapter: str = "",
        **penalties: Any,
    ) -> list[Beam]:
        """The ``count`` most probable answers that a beam search finds, the best first.

        ``length_penalty`` and ``early``: see :class:`MNN.llm.beams.Search`; ``penalties``: options of
        :class:`MNN.llm.SamplingOptions` that change logits (``repetition_penalty``, ``logit_bias``...); others are
        those of :meth:`stream`. Raises :class:`MNNError` for options that draw tokens, of which there are none here.

        >>> llm.beams("Name three colours.", 4, max_tokens=20)[0].text  # doctest: +SKIP
        """
        drawing = [name for name in penalties if name not in PENALTIES and name in _known(penalties)]
        if drawing:
            raise MNNError(f"beams are the most probable texts; nothing is drawn, so leave out {', '.join(drawing)}")
        if not isinstance(self.decoder, PagedDecoder) or not isinstance(self.conversation, PagedText):
            raise MNNError("folders of the official engine hold one text at a time; beams need a model of another form")
        search = Search(count, length_penalty, early)
        wanted = self._wanted(
            self._tokens(messages, tools, template or {}), max_tokens, stop, None, schema, adapter, penalties
        )
        writer = BeamWriter(
            self.decoder, self.tokenizer, search, wanted["options"], wanted["most"], wanted["stop"], wanted["grammar"]
        )
        self.decoder.adapt(self.conversation, adapter)
        return writer.write(self.conversation, wanted["prompt"])

    def logits(self, tokens: Sequence[int], adapter: str = "") -> np.ndarray:
        """The logits behind every token of a text, f32 ``[tokens, vocabulary]``, by an ``adapter`` if one is named."""
        return self.decoder.feed(self.decoder.text(adapter), self.checked(tokens), every=True)

    @property
    def adapters(self) -> Sequence[str]:
        """Names of the adapters that answers can be written with."""
        return self.decoder.adapters

    def add_adapter(self, name: str, folder: str | os.PathLike[str]) -> None:
        """Puts an adapter beside those that the model was loaded with, in room that :meth:`remove_adapter` has given
        back. Raises :class:`MNNError` where there is none, and for an adapter of another model."""
        if self._source is None or not isinstance(self.decoder, PagedDecoder) or self.decoder.bank is None:
            raise MNNError(f"the model was loaded without adapters; name this one then: adapters={{{name!r}: ...}}")
        self.decoder.add_adapter(name, read_adapter(open_weights(self._source), folder))

    def remove_adapter(self, name: str) -> None:
        """Forgets an adapter, whose name is not given again. Raises :class:`MNNError` for one that is not there."""
        if not isinstance(self.decoder, PagedDecoder) or self.decoder.bank is None:
            raise MNNError("the model was loaded without adapters")
        self.decoder.remove_adapter(name)

    def reset(self) -> None:
        """Forgets the conversation; nothing else depends on it."""
        self.decoder.cut(self.conversation, 0)

    def save_cache(self, path: str | os.PathLike[str]) -> None:
        """Writes the keys and values of the conversation to a file: whoever loads it need not read the conversation
        again. Raises :class:`MNNError` where there is none yet, and where it was written by an adapter."""
        decoder, text, model = self._paged()
        save_text(decoder, text, path, model)

    def check_cache(self, path: str | os.PathLike[str]) -> None:
        """Raises :class:`MNNError` where :meth:`save_cache` can write no file of this model at a path."""
        self._paged()
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise MNNError(f"cannot write {os.fspath(path)}: there is no folder {folder}")

    def load_cache(self, path: str | os.PathLike[str]) -> None:
        """Goes on from what :meth:`save_cache` wrote: what a prompt begins with alike is not computed again. Raises
        :class:`MNNError` for files of other models, of this one with other bits, and for what is no such file."""
        decoder, text, model = self._paged()
        loaded: PagedText | None = None
        with contextlib.suppress(NoPagesError):  # where there is no room for both
            loaded = load_text(decoder, path, model)
        decoder.cut(text, 0)
        self.conversation = load_text(decoder, path, model) if loaded is None else loaded

    def _paged(self) -> tuple[PagedDecoder, PagedText, str]:
        """The decoder and the conversation in pages, and whose they are."""
        if not isinstance(self.decoder, PagedDecoder) or not isinstance(self.conversation, PagedText):
            raise MNNError("folders of the official engine keep their caches in another form, which is not written")
        if self._source is None:
            raise MNNError("a model that was not loaded from files cannot tell whose its caches are")
        if self._whose is None:
            opened = open_model(self._source)
            assert isinstance(opened, Opened)
            self._whose = fingerprint(opened.files, self.decoder.told)
        return self.decoder, self.conversation, self._whose

    def _tokens(
        self, messages: Messages | Sequence[int], tools: Sequence[Mapping[str, Any]] | None, values: Mapping[str, Any]
    ) -> list[int]:
        if isinstance(messages, str):
            return self.prompt(messages, tools, **values)
        if isinstance(messages, bytes | Mapping) or not isinstance(messages, Iterable):
            kind = type(messages).__name__
            raise MNNError(f"a text, a list of messages, or one of tokens is expected, not {kind}")
        given = list(messages)
        if not given:
            raise MNNError("there is nothing to answer: the conversation has no messages")
        if all(isinstance(m, Mapping) for m in given):
            return self.prompt(given, tools, **values)  # type: ignore[arg-type]
        return self.checked(given)

    def checked(self, tokens: Iterable[Any], where: str = "") -> list[int]:
        """Tokens that the model's table has. Raises :class:`MNNError` for others, which says ``where`` they are."""
        inner = self.config.get("text_config")  # of models that read pictures, too
        told = {**self.config, **inner} if isinstance(inner, Mapping) else self.config
        most = int(as_number(told.get("vocab_size"), "vocab_size", 0))
        if isinstance(tokens, bytes) or not isinstance(tokens, Iterable):
            raise MNNError(f"{where}a list of tokens is expected, not {type(tokens).__name__}")
        tokens = list(tokens)
        for token in tokens:
            if not isinstance(token, (int, np.integer)) or token < 0 or (most and token >= most):
                raise MNNError(f"{where}{token!r:.60} is no token; tokens are numbers from 0 to {most - 1}")
        return [int(token) for token in tokens]

    def __repr__(self) -> str:
        kind = self.config.get("model_type")
        return f"<MNN.llm.LanguageModel of the family {kind}, up to {self.max_length} tokens>"


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    precision: str = "normal",
    max_length: int | None = None,
    bits: int | None = None,
    cache: bool = True,
    activation_bits: int | None = None,
    kv_bits: int | Sequence[int] = 16,
    cache_tokens: int | None = None,
    adapters: Mapping[str, str | os.PathLike[str]] | None = None,
    cache_memory: int | None = None,
    heads: str | os.PathLike[str] | None = None,
    literal: bool = False,
) -> LanguageModel:
    """Opens a language model: a .gguf file, or a Hugging Face folder (config.json, safetensors, tokenizer.json).

    ``threads``: by default one for every processor that the program may use. ``max_length``: how many tokens a
    conversation may have, by default what the model was made for. ``bits``: weights that the file has as floats are
    quantised to so many (4 or 8; blocks of 32). ``cache`` keeps programs and packed weights on disk, so that the next
    start reads no weights. ``activation_bits``: with 12 or 8, what low-bit weights are multiplied by is rounded to so
    many bits block by block (to 12 in any case where queries, keys and values are made), with 10 to 12, or in prompts
    to 8 where a block's numbers are small beside others of its row; with 32 it is not. The default is 10, at ``low`` 8
    and at ``high`` 32. ``kv_bits``: in how many bits keys and values are kept (32, 16, 8 or 4; one number, or one for
    keys and one for values). ``cache_tokens``: how many tokens all conversations
    together may have in the caches, 32768 at least by default; memory is taken as it is used. ``adapters``: folders of
    adapters (LoRA, as PEFT saves them) by names that answers choose one with; the model's own weights stay as they are.
    ``cache_memory``: bytes of keys and values that stay in memory between steps; others lie in a file of the cache
    folder until they are needed. ``heads``: a folder with heads that were trained to draft for this model (EAGLE,
    EAGLE-3 or Medusa), for answers with ``draft="heads"``. ``literal``: control tokens that are written in messages
    (``<|im_end|>``) are read as text, and only the chat template's own count. Raises :class:`MNNError` where there is
    no model, or one that is not known or damaged, and for adapters and heads of another model.

    >>> llm = MNN.llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    """
    config = Config(threads=processors() if threads is None else threads, precision=precision, cache=cache)
    with parsed_once(), uninterrupted():
        opened = open_model(path)
        files, drafting = None if heads is None else open_heads(heads), None
        if isinstance(opened, Opened):
            form = None if files is None else files.wanted(usual(opened.config).layers)
            paged = opened.decoder(
                config, max_length, bits, activation_bits, kv_bits, cache_tokens, adapters, cache_memory, form
            )
            decoder: Decoder = paged
            if files is not None and paged.max_length is not None:
                drafting = heads_of(files, opened, config, paged.max_length, bits, activation_bits)
        elif heads is not None:
            raise MNNError(f"{opened.path}: folders of the official engine show no layers to heads")
        elif adapters:
            raise MNNError(
                f"{opened.path}: adapters are merged into folders of the official engine when these are made: "
                "mnn llm convert --lora"
            )
        elif kv_bits == 16 and cache_tokens is None and cache_memory is None:
            decoder = opened.decoder(config, max_length, bits, activation_bits)
        else:
            raise MNNError(
                f"{opened.path}: folders of the official engine keep keys and values as they say; leave out kv_bits, "
                "cache_tokens and cache_memory"
            )
        source = opened.path if isinstance(opened, Opened) else None
        found = LanguageModel(decoder, load_tokenizer(opened.path), opened.config, source)
        found.heads = drafting
        found.tokenizer.read_literally(literal)
        return found


def _known(sampling: Mapping[str, Any]) -> Mapping[str, Any]:
    known = SamplingOptions.__dataclass_fields__
    for name in sampling:
        if name not in known:
            raise MNNError(f"there is no option '{name}'; options of sampling are {', '.join(known)}")
    return sampling


__all__ = ["LanguageModel", "Messages", "load"]
