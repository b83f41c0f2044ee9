"""What entries have in common, as typed functions: reading arrays of Vars and plain numbers, making arrays and Vars.

NULL stands for what is not as it mostly is, and for what could not be made, with an exception."""

# ruff: noqa: SIM110  there are no generators in typed Python
from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, Pointer, Pointers, Singles, Words, singles, typed, words, written
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.objects import ALIGNED, DENSE, KINDS, Array, Common, Object, VarObject

_TYPES = len(facts.KINDS)
_EXACT = 1 << 24
"""Whole numbers up to which f32 has all."""


@typed
def there(c: Common, x: Object) -> bool:
    return x is not NULL and x is not c.none


@typed
def kept(c: Common, x: Object) -> Object:
    """An object, for one more owner."""
    c.retain(x)
    return x


@typed
def dropped(c: Common, x: Object) -> None:
    """What a slot held is not its own any more."""
    if x:
        c.release(x)


@typed
def numbers(c: Common, x: Object) -> Array:
    """The array of a Var without a node, if it is dense, aligned and of Python's very types."""
    if x.type is not c.var:
        return NULL
    a = Array(VarObject(x).few)
    usual = DENSE | ALIGNED
    if not there(c, a) or a.type is not c.array or a.flags & usual != usual:
        return NULL
    return a


@typed
def product_of(sizes: Words, count_: int) -> int:
    found = 1
    for i in range(count_):
        found = found * sizes[i]
    return found


@typed
def count(a: Array) -> int:
    """How many numbers an array has."""
    return product_of(a.extents, a.rank)


@typed
def alike(a: Array, b: Array, first: int) -> bool:
    """Whether two arrays have the same sizes from the axis ``first`` on."""
    if a.rank != b.rank:
        return False
    for i in range(first, a.rank):
        if a.extents[i] != b.extents[i]:
            return False
    return True


@typed
def type_of(c: Common, number: int) -> Object:
    """The element type of a number."""
    return Object(Pointers(c)[KINDS + number])


@typed
def kind(c: Common, element: Object) -> int:
    """The number of an element type; -1 for others."""
    for i in range(_TYPES):
        if type_of(c, i) is element:
            return i
    return -1


@typed
def width(number: int) -> int:
    """Bytes of the numbers of an element type: from 2 on they have 8."""
    return 4 << (number >> 1)


@typed
def plain(c: Common, x: Object, room: Singles) -> bool:
    """A plain number that meets f32: not a whole one of more than 24 bits."""
    if x.type is c.float_:
        room[0] = c.real(x)
        return True
    if x.type is not c.int_:
        return False
    found = c.whole(x)
    if found == -1:  # or more than 64 bits
        c.clear()
        return False
    if not -_EXACT <= found <= _EXACT:
        return False
    room[0] = float(found)
    return True


@typed
def fresh(c: Common, element: Object, rank: int, sizes: Words) -> Array:
    """A new array."""
    return c.make(c.array, kept(c, element), rank, sizes, NULL, NULL, 0, NULL)


@typed
def single(c: Common, x: Object) -> Object:
    """A plain number that meets f32 as an array, which is the caller's."""
    room = singles(1)
    if not plain(c, x, room):
        return NULL
    known = c.dict_item(c.scalars, x)
    if known:
        return kept(c, known)
    c.clear()
    found = fresh(c, type_of(c, 0), 0, words(1))
    if found:
        Singles(found.data)[0] = room[0]
    return found


@typed
def blank(c: Common, few: Object, layout: Object) -> VarObject:
    """A Var of an array or of None, which is taken over, without a node."""
    found = VarObject(c.new(c.var, 0))
    if not found:
        c.release(few)
        return NULL
    found.few, found.layout = few, kept(c, layout)
    found.index, found.unconverted = kept(c, c.zero), kept(c, c.none)
    return found


@typed
def wrapped(c: Common, a: Array, x: Object) -> Object:
    """A Var of an array, which is taken over; its sizes are in the order that those of ``x`` are."""
    return blank(c, a, VarObject(x).layout)


@written("""
  %wide = and i64 %bytes_, -32
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %i1, %body ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %tail
body:
  %p = getelementptr i8, ptr %source, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %v = load <32 x i8>, ptr %p, align 1
  store <32 x i8> %v, ptr %q, align 1
  %i1 = add i64 %i, 32
  br label %head
tail:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %rest = icmp slt i64 %j, %bytes_
  br i1 %rest, label %one, label %out
one:
  %pj = getelementptr i8, ptr %source, i64 %j
  %qj = getelementptr i8, ptr %to, i64 %j
  %b = load i8, ptr %pj, align 1
  store i8 %b, ptr %qj, align 1
  %j1 = add i64 %j, 1
  br label %tail
out:
  ret void
""")
def copied(to: Pointer, source: Pointer, bytes_: int) -> None:
    """Memory written over with other memory."""


__all__ = [
    "alike", "blank", "copied", "count", "dropped", "fresh", "kept", "kind", "numbers", "plain", "product_of", "single",
    "there", "type_of", "width", "wrapped",
]  # fmt: skip
