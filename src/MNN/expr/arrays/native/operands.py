"""What is not computed yet, read by typed functions, and computed where its numbers are wanted."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, pointers, typed
from MNN.expr.arrays.native.objects import Arguments, Array, Common, Later, Object, VarObject
from MNN.expr.arrays.native.parts import count, dropped, kept, kind, numbers, there


@typed
def is_open(c: Common, o: Object) -> bool:
    """Whether an operand is what is not computed yet."""
    return o.type is c.later and not there(c, Later(o).array)


@typed
def operand(c: Common, x: Object) -> Object:
    """What a Var gives to a function that is computed later: an array, or what is such a function itself; else NULL."""
    if x.type is not c.var:
        return NULL
    if there(c, VarObject(x).few):
        return numbers(c, x)
    node = VarObject(x).node
    if node is NULL or node.type is not c.later:
        return NULL
    return node


@typed
def sized(c: Common, o: Object) -> Array:
    """An array of the sizes of an operand, or NULL."""
    if o.type is not c.later:
        return Array(o)
    like = Later(o).like
    if like is NULL or like.type is not c.array:
        return NULL
    return Array(like)


@typed
def is_of(c: Common, o: Object, wanted: Object, number: int) -> bool:
    """Whether an operand has an element type, ``wanted`` where it is not computed yet, else the one of a number."""
    if o.type is c.later:
        return Later(o).function.kind is wanted
    return kind(c, Array(o).element) == number


@typed
def sizes_of(c: Common, o: Object) -> Object:
    """The sizes of an operand as a tuple, which is the caller's; NULL with an exception where there is no memory."""
    if o.type is c.later:
        return kept(c, Later(o).shape)
    a = Array(o)
    found = c.tuple_new(a.rank)
    if not found:
        return NULL
    for i in range(a.rank):
        size = c.long(a.extents[i])
        if not size:
            c.release(found)
            return NULL
        c.tuple_set(found, i, size)
    return found


@typed
def numbers_now(c: Common, x: Object) -> Array:
    """As :func:`numbers`, of a Var that may not be computed yet and is from now on."""
    o = operand(c, x)
    if o is NULL or o.type is not c.later:
        return Array(o)
    given = Arguments(pointers(1))
    given[0] = o
    found = c.computed(c.computed_record, given, 1)
    # what has been computed in Python may be anything
    if found.type is not c.array or count(Array(found)) > c.few or kind(c, Array(found).element) < 0:
        c.release(found)
        return NULL
    var, later = VarObject(x), Later(o)
    old = var.few
    var.few = kept(c, found)
    dropped(c, old)
    c.retain(later)
    old = later.array
    later.array = kept(c, found)
    dropped(c, old)
    old = later.like
    later.like = kept(c, found)
    dropped(c, old)
    old = later.operands
    later.operands = kept(c, c.nothing)
    dropped(c, old)
    c.release(later)
    c.release(found)
    return numbers(c, x)


__all__ = ["is_of", "is_open", "numbers_now", "operand", "sized", "sizes_of"]
