"""Runs a decoder: prompts in chunks, then token after token, with caches that grow in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.errors import MNNError
from MNN.llm.engine.turns import Turns
from MNN.runtime.session import Session
from MNN.runtime.state_memory import Zeros
from MNN.stateful import State, StatefulModel

CHUNK = 512
"""Tokens of a prompt that are computed at once, all that a range of sizes holds (docs/new-sizes.md)."""


def pieces(tokens: int, most: int = CHUNK) -> Iterator[slice]:
    """A prompt in as few pieces of at most ``most`` tokens as it goes, all about as long: each reads all weights, so
    that a few last tokens alone would take as long as some more in each piece."""
    count = -(-tokens // most)
    for i in range(count):
        yield slice(tokens * i // count, tokens * (i + 1) // count)


@dataclass(eq=False)
class Text:
    """A text that is worked on: its tokens, of which the caches hold keys and values as the model with an ``adapter``
    makes them (empty: as it does by itself)."""

    state: State
    tokens: list[int] = field(default_factory=list)
    adapter: str = field(default="", kw_only=True)


class Decoder:
    """The graph of a model with its states, ready to run."""

    def __init__(
        self, session: Session, states: Mapping[str, str], max_length: int | None = None, switch: int = 0,
        zeros: Zeros | None = None,
    ) -> None:  # fmt: skip
        """``session``: of the graph, made for these ``states`` (:class:`MNN.llm.models.layers.Layers`). ``max_length``:
        how many tokens caches may hold. ``switch``: beyond how many tokens all positions turn in another way (0: none).
        ``zeros``: what makes the memory for states.
        """
        self.model = StatefulModel(session, states, max_length, zeros)
        self.max_length = max_length
        self.turns = Turns()
        """Of the threads that use it: a step is one turn, an exchange of adapters another."""
        self._switch = switch
        self._told = "length" in self.model.inputs

    @property
    def turns_by_length(self) -> bool:
        """Whether all positions of a text turn by its length: a longer text's keys are then of no use to a shorter."""
        return self._told

    @property
    def words(self) -> int:
        """How many tokens the model knows; 0 where that is not known."""
        return 0

    @property
    def adapters(self) -> Sequence[str]:
        """Names of the adapters that texts may go on with."""
        return ()

    def text(self, adapter: str = "") -> Text:
        """A new one, empty, of the model with an ``adapter``. Raises :class:`MNNError` for one that is not there."""
        self._check_adapter(adapter)
        return Text(self.model.new_state(), adapter=adapter)

    def _check_adapter(self, name: str) -> None:
        if name and name not in self.adapters:
            known = (
                f"its adapters are {', '.join(self.adapters)}" if self.adapters else "it was loaded without adapters"
            )
            raise MNNError(f"the model has no adapter {name!r:.60}; {known}")

    def feed(self, text: Text, tokens: Sequence[int], every: bool = False, *, drafted: int = 0) -> np.ndarray:
        """Goes on by ``tokens`` and gives the logits behind the last one, ``[1, vocabulary]``, or behind ``every`` one.
        ``drafted``: how many of the last ones may be taken back.

        Raises :class:`MNNError` where there are none, or more than the caches may hold; the text is then as it was.
        """
        if not tokens:
            raise MNNError("there are no tokens to go on by")
        total = len(text.tokens) + len(tokens)
        if self.max_length is not None and total > self.max_length:
            raise MNNError(
                f"the text would have {total} tokens; the model was loaded for {self.max_length}. Shorten it, reset "
                "the conversation, or load the model with a larger max_length"
            )
        before = len(text.tokens)
        if before and len(text.tokens) <= self._switch < total:  # all positions turn in another way from here on
            given = [*text.tokens, *tokens]
            text.state.reset()
            text.tokens = []
            return self.feed(text, given, every)[before if every else 0 :]
        found = []
        try:
            for piece in pieces(len(tokens)):
                found.append(self._step(text, tokens[piece], total, every))
        except BaseException:
            self.cut(text, before)
            raise
        return np.concatenate(found) if every else found[-1]

    def _step(self, text: Text, tokens: Sequence[int], total: int, every: bool) -> np.ndarray:
        """Goes on by some of what makes a text of ``total`` tokens, and gives their logits, as :meth:`feed` does."""
        raise NotImplementedError

    def at_once(self, text: Text) -> int:
        """How many tokens a text may go on by in one run whose logits are those of runs token by token: few where
        positions turn by the length of the text."""
        past = len(text.tokens)
        return CHUNK if not self._told or 0 < self._switch < past else max(self._switch - past, 1)

    def cut(self, text: Text, length: int) -> None:
        """Goes back to the first ``length`` tokens."""
        if length == 0:
            text.state.reset()
        elif text.state.length > length:
            text.state.rollback(length)
        del text.tokens[length:]

    def adapt(self, text: Text, adapter: str) -> None:
        """Has a text be one of the model with an ``adapter``: what it holds by another one is forgotten. Raises
        :class:`MNNError` for one that is not there."""
        self._check_adapter(adapter)
        if text.adapter != adapter:
            self.cut(text, 0)
            text.adapter = adapter

    def resume(self, text: Text, tokens: Sequence[int]) -> list[int]:
        """Goes back to what ``text`` and ``tokens`` begin with alike, and gives the tokens that are then missing, at
        least one."""
        same = 0
        for old, new in zip(text.tokens, tokens[:-1], strict=False):
            if old != new:
                break
            same += 1
        self.cut(text, same)
        return list(tokens[same:])


def common(one: Sequence[int] | np.ndarray, other: Sequence[int] | np.ndarray) -> int:
    """How many tokens two texts begin with alike."""
    count = min(len(one), len(other))
    differ = np.flatnonzero(np.asarray(one[:count]) != np.asarray(other[:count]))
    return int(differ[0]) if len(differ) else count


__all__ = ["CHUNK", "Decoder", "Text", "common", "pieces"]
