"""Makes what is not computed yet, as :mod:`MNN.expr.arrays.later` does: a Var, and in it a function with its operands.
Typed functions, which give NULL for what is left to others, without an exception but for :func:`deferred`."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, Words, pointers, typed, words
from MNN.expr.arrays.native.objects import (
    F32,
    UNKNOWN,
    Arguments,
    Common,
    Entry,
    FunctionObject,
    Later,
    Object,
    VarObject,
)
from MNN.expr.arrays.native.operands import is_of, is_open, operand, sized, sizes_of
from MNN.expr.arrays.native.parts import alike, blank, count, kept, single
from MNN.expr.fused.deferred import MOST, MOST_OPERANDS


@typed
def tally(c: Common, o: Object, sums: Words) -> None:
    """Adds the functions and arrays that an operand brings."""
    if is_open(c, o):
        sums[0] += c.whole(Later(o).functions)
        sums[1] += c.whole(Later(o).arrays)
    else:
        sums[1] += 1


@typed
def deferred(c: Common, function: Object, number: int, operands: Arguments, like: Object, layout: Object) -> Object:
    """A Var of a function of so many operands, one of which it is ``like``; NULL where the loop would be too long, or
    with an exception."""
    sums = words(2)
    sums[0], sums[1] = 1, 0
    for i in range(number):
        tally(c, operands[i], sums)
    if sums[0] > MOST or sums[1] > MOST_OPERANDS:
        return NULL
    given = c.tuple_new(number)
    if not given:
        return NULL
    for i in range(number):
        c.tuple_set(given, i, kept(c, operands[i]))
    sizes = sizes_of(c, like)
    if not sizes:
        c.release(given)
        return NULL
    found = Later(c.new(c.later, 0))
    if not found:
        c.release(sizes)
        c.release(given)
        return NULL
    found.array, found.passed = kept(c, c.none), kept(c, c.false)
    found.function, found.like = FunctionObject(kept(c, function)), kept(c, sized(c, like))
    found.functions, found.arrays = c.long(sums[0]), c.long(sums[1])
    found.operands, found.shape = given, sizes
    var = blank(c, kept(c, c.none), layout)
    if not var:
        c.release(found)
        return NULL
    var.node = found
    return var


@typed
def waits(c: Common, e: Entry, o: Object) -> bool:
    """Whether a function of this operand is computed later: of what is not computed itself, and of enough numbers."""
    if is_open(c, o):
        return True
    like = sized(c, o)
    return like is not NULL and count(like) >= e.least


@typed
def function(c: Common, e: Entry) -> Object:
    """The function of an entry, which Python makes when it is asked for first."""
    if e.function == UNKNOWN:
        given = Arguments(pointers(1))
        given[0] = e.record
        answer = c.call(c.maker, given, 1, NULL)
        if not answer:
            c.clear()
            return NULL
        c.release(answer)
    return Object(e.function)


@typed
def made(c: Common, e: Entry, number: int, operands: Arguments, like: Object, layout: Object) -> Object:
    """A Var of the entry's function."""
    found = deferred(c, function(c, e), number, operands, like, layout)
    if not found:
        c.clear()
    return found


@typed
def later_each(c: Common, e: Entry, x: Object) -> Object:
    """A Var of the entry's function of one operand."""
    a = operand(c, x)
    if a is NULL or not waits(c, e, a) or not is_of(c, a, c.f32, F32) or not sized(c, a) or not function(c, e):
        return NULL
    operands = Arguments(pointers(1))
    operands[0] = a
    return made(c, e, 1, operands, a, VarObject(x).layout)


@typed
def later_pair(c: Common, e: Entry, x: Object, y: Object) -> Object:
    """The same of two operands, of which the second one may be a plain number."""
    a = operand(c, x)
    if a is NULL or not is_of(c, a, c.f32, F32) or not sized(c, a):
        return NULL
    layout = VarObject(x).layout
    operands = Arguments(pointers(2))
    if y.type is c.var:
        b = operand(c, y)
        if b is NULL or e.turned != 0 or not (waits(c, e, a) or waits(c, e, b)):
            return NULL
        if not is_of(c, b, c.f32, F32) or not sized(c, b) or VarObject(y).layout is not layout:
            return NULL
        if not alike(sized(c, a), sized(c, b), 0) or not function(c, e):
            return NULL
        operands[0], operands[1] = a, b
        return made(c, e, 2, operands, a, layout)
    if not waits(c, e, a) or not function(c, e):
        return NULL
    number = single(c, y)
    if not number:
        c.clear()
        return NULL
    operands[0], operands[1] = number if e.turned != 0 else a, a if e.turned != 0 else number
    found = made(c, e, 2, operands, a, layout)
    c.release(number)
    return found


__all__ = ["deferred", "function", "later_each", "later_pair", "made", "waits"]
