"""Reading assembly: which instructions a kernel consists of, what it spills, and its hottest loop."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.targets import syntax

_LABEL = re.compile(r"^([.\w$]+):")
_COMPILED = {
    name: re.compile("|".join(fnmatch.translate(p) for p in patterns.split()))
    for name, patterns in syntax.KINDS.items()
}
_PADDING = re.compile(r"^(nop\w*|data16|int3|ud2)$")


@dataclass(frozen=True)
class Line:
    """An instruction: its mnemonic, its operands as text, and the number (from 0) of its line in the listing."""

    number: int
    mnemonic: str
    operands: str


@dataclass(frozen=True)
class CodeRange:
    """Some instructions of a listing: their line numbers, how many of each kind, spills of both sorts of registers."""

    lines: tuple[int, ...]
    kinds: dict[str, int]
    vector_spills: int
    general_spills: int

    @property
    def count(self) -> int:
        return sum(self.kinds.values())


@dataclass(frozen=True)
class Listing:
    """What is in an assembly text: all of it, and its hottest loop (None without loops)."""

    whole: CodeRange
    hot: CodeRange | None


def examine(text: str, family: str) -> Listing:
    """Reads the assembly of a kernel for a processor family (``x86`` in AT&T syntax, or ``aarch64``).

    The hottest loop is taken to be the loop without a loop inside that has most multiply-adds; without any, the one
    with most vector instructions.
    """
    blocks = _blocks(text, family)
    sign, both = syntax.FRAME.get(family, (None, None))
    stack = both if sign is not None and sign.search(text) else syntax.STACK.get(family)
    everything = _stretch([x for block in blocks for x in block.lines], family, stack)
    loops = [[x for i in sorted(loop) for x in blocks[i].lines] for loop in _innermost(blocks)]

    def heat(lines: Sequence[Line]) -> tuple[int, int, int]:
        products = sum(_kind(x, family) in (syntax.MULTIPLY_ADD, syntax.MATRIX) for x in lines)
        return products, sum(_is_vector(x, family) for x in lines), len(lines)

    hottest = max(loops, key=heat, default=None)
    return Listing(everything, None if hottest is None else _stretch(hottest, family, stack))


@dataclass
class _Block:
    lines: list[Line]
    after: list[int]


def _blocks(text: str, family: str) -> list[_Block]:
    """Basic blocks in the order of the text, and which may follow which."""
    jumps = re.compile("|".join(fnmatch.translate(p) for p in syntax.JUMPS.get(family, "").split()) or "$^")
    always = syntax.ALWAYS.get(family, "").split()
    blocks = [_Block([], [])]
    starts: dict[str, int] = {}
    goals: list[tuple[int, str]] = []
    falls: list[bool] = [True]
    for number, line in enumerate(text.splitlines()):
        label = _LABEL.match(line)
        if label:
            if blocks[-1].lines:
                blocks.append(_Block([], []))
                falls.append(True)
            starts[label[1]] = len(blocks) - 1
            continue
        found = _instruction(number, line)
        if found is None:
            continue
        blocks[-1].lines.append(found)
        is_jump = bool(jumps.match(found.mnemonic))
        if is_jump:
            goals.append((len(blocks) - 1, found.operands.split(",")[-1].strip()))
        if is_jump or found.mnemonic in syntax.RETURN:
            falls[-1] = found.mnemonic not in (*always, *syntax.RETURN)
            blocks.append(_Block([], []))
            falls.append(True)
    for i in range(len(blocks) - 1):
        if falls[i]:
            blocks[i].after.append(i + 1)
    for i, goal in goals:
        if goal in starts:
            blocks[i].after.append(starts[goal])
    return blocks


def _instruction(number: int, line: str) -> Line | None:
    body = re.split(r"\s#|//|;", line, maxsplit=1)[0].strip()
    if not body or body.startswith((".", "#", "@")):
        return None
    mnemonic, *operands = body.split(None, 1)
    return Line(number, mnemonic, operands[0].strip() if operands else "")


def _innermost(blocks: Sequence[_Block]) -> list[set[int]]:
    """Loops without loops inside: strongly connected parts that fall apart without the block where they are entered."""
    found: list[set[int]] = []
    waiting = [set(range(len(blocks)))]
    while waiting:
        for part in _cycles(blocks, waiting.pop()):
            entered = [
                i for i in sorted(part) if any(i in blocks[j].after for j in range(len(blocks)) if j not in part)
            ]
            rest = part - {entered[0] if entered else min(part)}
            if _cycles(blocks, rest):
                waiting.append(rest)
            else:
                found.append(part)
    return found


def _cycles(blocks: Sequence[_Block], inside: Iterable[int]) -> list[set[int]]:
    """Strongly connected parts that hold a cycle (Tarjan, "Depth-First Search and Linear Graph Algorithms", 1972)."""
    allowed = set(inside)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[set[int]] = []
    for root in sorted(allowed):
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        walk = [(root, iter(blocks[root].after))]
        while walk:
            at, following = walk[-1]
            child = next((c for c in following if c in allowed and (c not in index or c in stack)), None)
            if child is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[at])
                if low[at] == index[at]:
                    part = set(stack[stack.index(at) :])
                    del stack[stack.index(at) :]
                    if len(part) > 1 or at in blocks[at].after:
                        found.append(part)
            elif child in index:
                low[at] = min(low[at], index[child])
            else:
                index[child] = low[child] = len(index)
                stack.append(child)
                walk.append((child, iter(blocks[child].after)))
    return found


def _stretch(lines: Sequence[Line], family: str, stack: re.Pattern[str] | None) -> CodeRange:
    kept = [x for x in lines if not _PADDING.match(x.mnemonic)]
    kinds = Counter(_kind(x, family) for x in kept)
    spills = [_is_vector(x, family) for x in kept if _is_spill(x, stack)]
    numbers = tuple(x.number for x in lines)
    return CodeRange(numbers, dict(kinds.most_common()), sum(spills), len(spills) - sum(spills))


def _is_vector(line: Line, family: str) -> bool:
    return family in syntax.REGISTER and bool(syntax.REGISTER[family].search(line.operands))


def _is_spill(line: Line, stack: re.Pattern[str] | None) -> bool:
    """A register written to the stack, or used from there; an address on the stack (lea) is none."""
    return stack is not None and bool(stack.search(line.operands)) and not line.mnemonic.startswith("lea")


def _kind(line: Line, family: str) -> str:
    found = next((name for name, pattern in _COMPILED.items() if pattern.match(line.mnemonic)), syntax.OTHER)
    if found in ("address", "load or store") and "mov" in line.mnemonic and family in syntax.MEMORY:
        return "load or store" if syntax.MEMORY[family].search(line.operands) else "move"
    return found
