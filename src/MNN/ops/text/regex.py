"""Regular expressions matched in time linear in the text, so that a pattern from a file cannot take for ever.

Python's parser reads the pattern; what it means is run as a set of states (Thompson, Regular Expression Search
Algorithm, 1968). Only what RE2 means in the same way is taken: there are no backreferences and no looking around;
classes such as ``\\w`` are those of ASCII, and ``$`` is the end of the text.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from MNN.errors import UnsupportedError

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_constants: Any = importlib.import_module("re._constants" if sys.version_info >= (3, 11) else "sre_constants")

MAX_STATES = 20_000
"""States of a pattern after its repetitions are written out."""
MAX_REPEAT = 1000
"""As RE2 has it."""
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CLASSES = {"DIGIT": frozenset("0123456789"), "WORD": _WORD, "SPACE": frozenset(" \t\n\r\f")}
_ONLY_RE2 = re.compile(r"\[\[?:|\[\^?\[:|\\[pPQCz]|\\Z")
_ONLY_PYTHON = re.compile(r"\{,|\(\?(?![:P]|i\)|s\)|is\)|si\))|\(\?P[=>]|\\[uUN]")

Test = Callable[[str], bool]
Where = Callable[[str, int], bool]


class Pattern:
    """A compiled pattern. Raises :class:`UnsupportedError` for what is malformed, or not the same in RE2 and here."""

    def __init__(self, text: str) -> None:
        odd = _ONLY_RE2.search(text) or _ONLY_PYTHON.search(text)
        if odd:
            raise UnsupportedError(f"the pattern {text[:80]!r} uses '{odd[0]}', which is not understood here")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                tree = _parser.parse(text, re.ASCII)
        except (re.error, Warning, OverflowError, RecursionError) as error:
            raise UnsupportedError(f"the pattern {text[:80]!r} cannot be read: {error}") from error
        self._text = text
        self._ignore = bool(tree.state.flags & re.IGNORECASE)
        self._all = bool(tree.state.flags & re.DOTALL)
        if tree.state.flags & ~(re.IGNORECASE | re.DOTALL | re.ASCII):
            raise self._refused("these flags")
        # one list an instruction: where to go freely (under a condition), and a test with where to go on a character
        self._free: list[list[tuple[Where | None, int]]] = []
        self._step: list[tuple[Test, int] | None] = []
        self._end = self._state()
        try:
            self._start = self._sequence(tree, self._end)
        except RecursionError as error:
            raise self._refused("groups this deep") from error

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        states = self._closure([self._start], text, 0)
        for at, character in enumerate(text):
            following = [step[1] for s in states if (step := self._step[s]) is not None and step[0](character)]
            states = self._closure(following, text, at + 1)
            if not states:
                return False
        return self._end in states

    def longest(self, text: str, start: int) -> int:
        """The end of the longest piece from ``start`` on that fits, -1 when none does."""
        states, end = self._closure([self._start], text, start), -1
        for at in range(start, len(text) + 1):
            end = at if self._end in states else end
            if at == len(text) or not states:
                break
            following = [step[1] for s in states if (step := self._step[s]) is not None and step[0](text[at])]
            states = self._closure(following, text, at + 1)
        return end

    def pieces(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of the longest pieces that fit, from left to right; empty ones do not count."""
        found, at = [], 0
        while at < len(text):
            end = self.longest(text, at)
            if end > at:
                found.append((at, end))
            at = max(end, at + 1)
        return found

    def _closure(self, states: Sequence[int], text: str, at: int) -> set[int]:
        found, stack = set(states), list(states)
        while stack:
            for condition, target in self._free[stack.pop()]:
                if target not in found and (condition is None or condition(text, at)):
                    found.add(target)
                    stack.append(target)
        return found

    # -- building: each part is made for the state that follows it, and gives the state that begins it ---------------

    def _state(self) -> int:
        if len(self._free) >= MAX_STATES:
            raise self._refused(f"more than {MAX_STATES} states")
        self._free.append([])
        self._step.append(None)
        return len(self._free) - 1

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"the pattern {self._text[:80]!r} needs {what}, which is not done here")

    def _sequence(self, items: Any, after: int) -> int:
        for op, argument in reversed(list(items)):
            after = self._part(str(op), argument, after)
        return after

    def _part(self, op: str, argument: Any, after: int) -> int:
        if op in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            state = self._state()
            self._step[state] = self._test(op, argument), after
            return state
        if op == "BRANCH":
            return self._choice([self._sequence(branch, after) for branch in argument[1]])
        if op == "SUBPATTERN":
            if argument[1] or argument[2]:
                raise self._refused("flags of a group")
            return self._sequence(argument[3], after)
        if op in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, items = argument
            return self._repeat(least, most, items, after)
        if op == "AT":
            state = self._state()
            self._free[state].append((self._place(str(argument)), after))
            return state
        raise self._refused(op.lower().replace("_", " "))

    def _choice(self, targets: Sequence[int]) -> int:
        state = self._state()
        self._free[state] += [(None, t) for t in targets]
        return state

    def _repeat(self, least: int, most: int, items: Any, after: int) -> int:
        endless = most == _constants.MAXREPEAT
        if least > MAX_REPEAT or (not endless and most > MAX_REPEAT):
            raise self._refused(f"more than {MAX_REPEAT} repetitions")
        if endless:
            loop = self._choice([after])
            self._free[loop].append((None, self._sequence(items, loop)))
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._choice([end, self._sequence(items, after)])
        for _ in range(least):
            after = self._sequence(items, after)
        return after

    def _place(self, name: str) -> Where:
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return lambda text, at: at == 0
        if name in ("AT_END", "AT_END_STRING"):
            return lambda text, at: at == len(text)
        if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            wanted = name == "AT_BOUNDARY"
            return lambda text, at: (_is_word(text, at - 1) != _is_word(text, at)) == wanted
        raise self._refused(name.lower().replace("_", " "))

    def _test(self, op: str, argument: Any) -> Test:
        if op == "ANY":
            return (lambda c: True) if self._all else (lambda c: c != "\n")
        members = [("LITERAL", argument)] if op != "IN" else [(str(kind), value) for kind, value in argument]
        negated = op == "NOT_LITERAL" or members[0][0] == "NEGATE"
        tests = [self._member(kind, value) for kind, value in members if kind != "NEGATE"]
        if not self._ignore:
            return lambda c: any(t(c) for t in tests) != negated
        return lambda c: any(t(f) for t in tests for f in {c, c.lower(), c.upper()} if len(f) == 1) != negated

    def _member(self, kind: str, value: Any) -> Test:
        if kind == "LITERAL":
            wanted = chr(value)
            return lambda c: c == wanted
        if kind == "RANGE":
            low, high = value
            return lambda c: low <= ord(c) <= high
        name = str(value).removeprefix("CATEGORY_")
        characters = _CLASSES.get(name.removeprefix("NOT_"))
        if kind != "CATEGORY" or characters is None:
            raise self._refused(name.lower())
        outside = name.startswith("NOT_")
        return lambda c: (c in characters) != outside


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at] in _WORD
