"""The entry of operators on pairs of numbers, whose operands broadcast, as a typed function."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, pointers, singles, typed, words
from MNN.expr.arrays.native.elementwise import DENSE_PAIR, SPREAD, loop_of, paired, unusual
from MNN.expr.arrays.native.making import later_pair
from MNN.expr.arrays.native.objects import Arguments, Common, Entry, Object
from MNN.expr.arrays.native.parts import count, fresh, kind, numbers, width, wrapped

_AXES = 8
_WORTH = 8
"""Numbers along the last axis from which on a loop for each row pays."""


@typed
def pairwise(c: Common, e: Entry, given: Arguments) -> Object:
    x, y = given[0], given[1]
    later = later_pair(c, e, x, y)
    if later:
        return later
    places, room, steps, counts = pointers(3), singles(1), words(3), words(1)
    what = paired(c, e, x, y, room, places, steps)
    if what == SPREAD:
        return spread(c, e, x, y)
    if what != DENSE_PAIR:
        return unusual(c)
    a = numbers(c, x)
    found = fresh(c, a.element, a.rank, a.extents)
    if not found:
        return NULL
    number = kind(c, a.element)
    places[2], steps[2], counts[0] = found.data, width(number), count(a)
    loop = loop_of(e, number)
    loop.run(places, counts, steps, loop.given)
    return wrapped(c, found, x)


@typed
def spread(c: Common, e: Entry, x: Object, y: Object) -> Object:
    """Sizes of 1 are repeated: the loop runs along the last axis, once for each row of the result."""
    a, b = numbers(c, x), numbers(c, y)
    axes, size = max(a.rank, b.rank), width(kind(c, a.element))
    if not 1 <= axes <= _AXES:
        return unusual(c)
    joint, index, steps_a, steps_b = words(_AXES), words(_AXES), words(_AXES), words(_AXES)
    step_a, step_b, total = size, size, 1
    for i in range(axes):  # from the innermost axis outwards
        axis = axes - 1 - i
        here_a = a.extents[a.rank - 1 - i] if i < a.rank else 1
        here_b = b.extents[b.rank - 1 - i] if i < b.rank else 1
        if here_a != here_b and here_a != 1 and here_b != 1:
            return unusual(c)
        joint[axis], index[axis] = here_b if here_a == 1 else here_a, 0
        steps_a[axis] = 0 if here_a == 1 else step_a
        steps_b[axis] = 0 if here_b == 1 else step_b
        step_a, step_b, total = step_a * here_a, step_b * here_b, total * joint[axis]
    last = axes - 1
    inner = joint[last]
    if not 1 <= total <= c.few or inner < _WORTH:
        return unusual(c)
    found = fresh(c, a.element, axes, joint)
    if not found:
        return NULL
    places, steps, counts, loop = pointers(3), words(3), words(1), loop_of(e, kind(c, a.element))
    steps[0], steps[1], steps[2] = steps_a[last], steps_b[last], size
    counts[0] = inner
    at_a, at_b, done = a.data, b.data, 0
    while True:
        places[0], places[1], places[2] = at_a, at_b, found.data.after(done * size)
        loop.run(places, counts, steps, loop.given)
        done += inner
        if done == total:
            return wrapped(c, found, x)
        axis = last - 1
        while index[axis] + 1 == joint[axis]:  # back to the axis' begin, and on along the one outside
            at_a = at_a.after(-index[axis] * steps_a[axis])
            at_b = at_b.after(-index[axis] * steps_b[axis])
            index[axis] = 0
            axis -= 1
        index[axis] = index[axis] + 1
        at_a, at_b = at_a.after(steps_a[axis]), at_b.after(steps_b[axis])


__all__ = ["pairwise"]
