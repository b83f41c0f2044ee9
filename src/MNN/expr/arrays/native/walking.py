"""Computes what is not computed yet by a program in the table (:mod:`MNN.expr.fused.programs`), as typed functions.

``lists`` of a walk are how many steps, arrays and operands have been met; then two words for each step, which are the
key, the arrays, two words for each operand (itself, and what it is numbered), and the steps."""

# ruff: noqa: SIM110  there are no generators in typed Python
from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.typed.language import NULL, Pointer, Record, Words, address, shifted, typed, words
from MNN.expr.arrays.native.objects import ALIGNED, DENSE, Arguments, Array, Common, Entry, Later, Object
from MNN.expr.arrays.native.operands import is_open, sized
from MNN.expr.arrays.native.parts import alike, count, dropped, fresh, kept, type_of
from MNN.expr.fused import programs
from MNN.expr.fused.deferred import MOST, MOST_OPERANDS

_STEPS, _ARRAYS, _MET = range(3)
"""Where the numbers of these are."""
_KEY = 8
_FIRST_ARRAY = _KEY + 2 * MOST
_FIRST_MET = _FIRST_ARRAY + MOST_OPERANDS
_FIRST_STEP = _FIRST_MET + 2 * (MOST + MOST_OPERANDS)
_LISTS = _FIRST_STEP + MOST
_FEW = 4
"""Operands of a function at most, whose numbers lie in one word."""
_FAILED = -1


class Row(Record):
    """A place in the table of programs."""

    hash: int
    key: Words
    run: Callable[[Words, int, int, Pointer], None]
    most: int


@typed
def met(lists: Words, o: Object) -> int:
    """What an operand is numbered; -1 where it has not been met."""
    for i in range(lists[_MET]):
        if lists[_FIRST_MET + 2 * i] == address(o):
            return lists[_FIRST_MET + 2 * i + 1]
    return _FAILED


@typed
def leaf(c: Common, lists: Words, o: Object, like: Array) -> int:
    """The number of an array that is read, which it gets; -1 for what is left to Python."""
    a = Array(Later(o).array if o.type is c.later else o)
    usual, number = DENSE | ALIGNED, lists[_ARRAYS]
    if a.type is not c.array or a.flags & usual != usual or number >= MOST_OPERANDS:
        return _FAILED
    whole = alike(a, like, 0)
    if not whole and count(a) != 1:
        return _FAILED
    lists[_FIRST_ARRAY + number] = address(a)
    lists[_ARRAYS] = number + 1
    return number + (programs.ARRAY if whole else programs.SINGLE)


@typed
def walk(c: Common, lists: Words, node: Later, like: Array) -> int:
    """Lists what a node is computed from, each step behind its operands; the number of its own step, or -1 for what is
    left to Python."""
    operands = node.operands
    if operands is NULL or operands.type is not c.tuple_ or not 1 <= c.tuple_size(operands) <= _FEW:
        return _FAILED
    packed = 0
    for i in range(c.tuple_size(operands)):
        o = c.tuple_item(operands, i)
        own = met(lists, o)
        if own < 0:
            if is_open(c, o):
                if Later(o).passed is c.true:  # which is stored where it has been computed before
                    return _FAILED
                own = walk(c, lists, Later(o), like)
            else:
                own = leaf(c, lists, o, like)
            if own < 0:
                return _FAILED
            known = lists[_MET]
            lists[_FIRST_MET + 2 * known], lists[_FIRST_MET + 2 * known + 1] = address(o), own
            lists[_MET] = known + 1
        packed = packed | own << 8 * i
    step = lists[_STEPS]
    if step >= MOST:
        return _FAILED
    lists[_KEY + 2 * step], lists[_KEY + 2 * step + 1] = address(node.function), packed
    lists[_FIRST_STEP + step] = address(node)
    lists[_STEPS] = step + 1
    return step


@typed
def is_key(key: Words, of_walk: Words, long: int) -> bool:
    """Whether a key, behind its length and the type of results, has these words."""
    if key[0] != long:
        return False
    for i in range(long):
        if key[2 + i] != of_walk[i]:
            return False
    return True


@typed
def program(c: Common, of_walk: Words, long: int) -> Row:
    """The place in the table of the program with a key; NULL where there is none."""
    hashed = 0
    for i in range(long):
        hashed = (hashed ^ of_walk[i]) * programs.MIX
        hashed = hashed ^ shifted(hashed, 29)
    hashed = 1 if hashed == 0 else hashed
    place = hashed & programs.PLACES
    while True:
        row = Row(c.programs.after(place * programs.FIELDS))
        if row.hash == 0:
            return NULL
        if row.hash == hashed and is_key(row.key, of_walk, long):
            return row
        place = place + 1 & programs.PLACES


@typed
def forced(c: Common, node: Later) -> Object:
    """The numbers of what may not be computed yet, which are the caller's; NULL where that is left to Python."""
    if not is_open(c, node):
        return kept(c, node.array)
    like, lists, slots = sized(c, node), words(_LISTS), words(MOST_OPERANDS + 4)
    if not like:
        return NULL
    lists[_STEPS], lists[_ARRAYS], lists[_MET] = 0, 0, 0
    if walk(c, lists, node, like) < 0:
        return NULL
    row = program(c, lists.after(_KEY), 2 * lists[_STEPS])
    if not row or not 1 <= count(like) <= row.most:
        return NULL
    found = fresh(c, type_of(c, row.key[1]), like.rank, like.extents)
    if not found:
        c.clear()
        return NULL
    slots[0], slots[1] = count(like), count(like)
    for i in range(lists[_ARRAYS]):
        slots[2 + i] = address(Array(Pointer(lists[_FIRST_ARRAY + i])).data)
    slots[2 + lists[_ARRAYS]] = address(found.data)
    row.run(slots, 0, 1, NULL)
    for i in range(lists[_STEPS]):
        step = Later(Pointer(lists[_FIRST_STEP + i]))
        old = step.passed
        step.passed = kept(c, c.true)
        dropped(c, old)
    return found


@typed
def computed(self: Array, given: Arguments, number: int) -> Object:
    """Of what is not computed yet, the numbers, which are not kept; None where there is no program for them."""
    c = Entry(self.data).common
    if given[0].type is c.later:
        found = forced(c, Later(given[0]))
        if found:
            return found
    return kept(c, c.none)


__all__ = ["computed"]
