"""The entries that move numbers, as typed functions: parts, other orders, arrays joined, and what numpy is given."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, Pointer, typed, words
from MNN.expr.arrays.native.elementwise import unusual
from MNN.expr.arrays.native.objects import ALIGNED, DENSE, Arguments, Array, Common, Entry, Object, VarObject
from MNN.expr.arrays.native.operands import numbers_now
from MNN.expr.arrays.native.parts import alike, copied, count, fresh, kept, kind, product_of, width, wrapped

_AXES = 8


@typed
def shared(self: Array, given: Arguments, number: int, names: Pointer) -> Object:
    """The numbers of a Var as an array of numpy's, not to be written to: an entry that may be given operands by
    name."""
    e = Entry(self.data)
    c = e.common
    if number == 1 and not names:
        a = numbers_now(c, given[0])
        if a:
            element = kept(c, a.element)
            found = c.make(c.array, element, a.rank, a.extents, a.strides, a.data, DENSE | ALIGNED, NULL)
            if not found:
                return NULL
            c.retain(a)
            if c.set_base(found, a) != 0:
                c.release(found)
                return NULL
            return found
    return c.call_named(e.usual, given, number, names)


@typed
def in_order(c: Common, view: Array, x: Object) -> Object:
    """A Var of the numbers of a view, which is given up, side by side."""
    if not view:
        return NULL
    found = c.copy(view, 0)
    c.release(view)
    if not found:
        return NULL
    return wrapped(c, found, x)


@typed
def moved(c: Common, e: Entry, given: Arguments) -> Object:
    """The transpose of a matrix."""
    a = numbers_now(c, given[0])
    if not a or a.rank != 2 or given[1] is not c.none or count(a) > e.most:
        return unusual(c)
    return in_order(c, c.transpose(a, NULL), given[0])


@typed
def is_part(c: Common, key: Object) -> bool:
    """Whether a key is a tuple of whole numbers and slices, with at least one of these."""
    cuts = False
    if key.type is not c.tuple_:
        return False
    for i in range(c.tuple_size(key)):
        item = c.tuple_item(key, i)
        if item.type is c.slice_:
            cuts = True
        elif item.type is not c.int_:
            return False
    return cuts


@typed
def part(c: Common, e: Entry, given: Arguments) -> Object:
    """What numpy's own indexing gives, where it is an array: not a single number."""
    key = given[1]
    a = numbers_now(c, given[0])
    if not a:
        return unusual(c)
    if key.type is c.int_:
        if a.rank < 2:
            return unusual(c)
    elif key.type is not c.slice_ and not is_part(c, key):
        return unusual(c)
    view = Array(c.item(a, key))
    if not view:
        c.clear()
        return unusual(c)
    return in_order(c, view, given[0])


@typed
def size_of(c: Common, x: Object) -> int:
    """How many a list or tuple has."""
    return c.list_size(x) if x.type is c.list_ else c.tuple_size(x)


@typed
def item_of(c: Common, x: Object, i: int) -> Object:
    return c.list_item(x, i) if x.type is c.list_ else c.tuple_item(x, i)


@typed
def joined(c: Common, e: Entry, given: Arguments) -> Object:
    """Arrays of a list or tuple one behind the other along their first axis."""
    x = given[0]
    if (x.type is not c.list_ and x.type is not c.tuple_) or given[1] is not c.zero or size_of(c, x) == 0:
        return unusual(c)
    first, parts, rows = item_of(c, x, 0), size_of(c, x), 0
    a = numbers_now(c, first)
    if not a or kind(c, a.element) < 0 or not 1 <= a.rank <= _AXES:
        return unusual(c)
    for i in range(parts):
        other = item_of(c, x, i)
        b = numbers_now(c, other)
        if not b or a.element is not b.element or VarObject(first).layout is not VarObject(other).layout:
            return unusual(c)
        if not alike(a, b, 1):
            return unusual(c)
        rows += b.extents[0]
    sizes = words(_AXES)
    for i in range(a.rank):
        sizes[i] = a.extents[i]
    sizes[0] = rows
    if product_of(sizes, a.rank) > c.few:
        return unusual(c)
    found = fresh(c, a.element, a.rank, sizes)
    if not found:
        return NULL
    to = found.data
    for i in range(parts):
        b = numbers_now(c, item_of(c, x, i))
        long = count(b) * width(kind(c, a.element))
        copied(to, b.data, long)
        to = to.after(long)
    return wrapped(c, found, first)


__all__ = ["joined", "moved", "part", "shared"]
