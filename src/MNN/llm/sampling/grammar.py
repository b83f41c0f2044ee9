"""Answers that fit a grammar: which tokens may follow, by ``llguidance`` (the extra ``grammar``)."""

from __future__ import annotations

import copy
import importlib
import json
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import MNNError, RunError
from MNN.llm.text import Tokenizer

Array = np.ndarray[Any, np.dtype[Any]]
SPACES = r"[ \n]{0,16}"
"""What may stand between the parts of JSON: models that may write spaces without end do so."""
_TOKENIZERS: weakref.WeakKeyDictionary[Tokenizer, Any] = weakref.WeakKeyDictionary()


class Grammar:
    """The state of one answer. Its source: a grammar in llguidance's form."""

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        library = _library()
        words = _words(tokenizer)
        wrong = library.LLMatcher.validate_grammar(source, words)
        if wrong:
            raise MNNError(f"the grammar cannot be used: {wrong}")
        self._matcher = library.LLMatcher(words, source)
        self._mask = importlib.import_module("llguidance.numpy")
        self._bits = self._mask.allocate_token_bitmask(1, words.vocab_size)
        self._ends = tokenizer.stop_ids

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any], tokenizer: Tokenizer) -> Grammar:
        """JSON that fits a schema. MNNError for schemas that cannot be used."""
        try:
            text = json.dumps(dict(schema))
        except (TypeError, ValueError, RecursionError) as error:
            raise MNNError(f"the JSON schema cannot be used: {error}") from error
        source = _library().LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_pattern": SPACES})
        return cls(source, tokenizer)

    @classmethod
    def of_lark(cls, source: str, tokenizer: Tokenizer) -> Grammar:
        """A grammar as Lark writes them. MNNError for what is none."""
        return cls(_library().LLMatcher.grammar_from_lark(source), tokenizer)

    def allowed(self, words: int) -> Array:
        """Which tokens may follow, bool ``[words]``; those that end an answer, where it may end."""
        if self._matcher.is_stopped():
            found = np.zeros(words, bool)
            found[[token for token in self._ends if token < words]] = True
            return found
        self._mask.fill_next_token_bitmask(self._matcher, self._bits, 0)
        if self._matcher.is_error():
            raise RunError(f"the grammar has failed: {self._matcher.get_error()}")
        bits = np.unpackbits(self._bits[0].view(np.uint8), bitorder="little").view(bool)
        found = np.zeros(words, bool)
        found[: min(words, len(bits))] = bits[:words]
        if self._matcher.is_accepting():
            found[[token for token in self._ends if token < words]] = True
        return found

    def take(self, token: int) -> None:
        """The token that was chosen."""
        if token not in self._ends and not self._matcher.is_stopped():
            self._matcher.consume_token(token)

    def copy(self) -> Grammar:
        """The same state, for another text with the same beginning."""
        found = copy.copy(self)
        found._matcher = self._matcher.deep_copy()
        return found


def _words(tokenizer: Tokenizer) -> Any:
    """The library's form of a tokenizer, made once."""
    found = _TOKENIZERS.get(tokenizer)
    if found is None:
        end = tokenizer.eos_id if tokenizer.eos_id is not None else min(tokenizer.stop_ids, default=None)
        if end is None:
            raise MNNError("answers of a model without a token that ends them cannot fit a grammar")
        try:
            found = _library().LLTokenizer(tokenizer.core.to_str(), eos_token=end)
        except Exception as error:
            raise MNNError(f"this tokenizer cannot be used with grammars: {error}") from error
        _TOKENIZERS[tokenizer] = found
    return found


def _library() -> Any:
    try:
        return importlib.import_module("llguidance")
    except ImportError as error:
        raise MNNError(
            'the package llguidance is needed for answers in JSON; install it with: pip install "mnn-py[grammar]"'
        ) from error
