"""The entry that chooses one of two numbers where a condition holds, as typed functions."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, Ints, Pointer, pointers, singles, typed, written
from MNN.expr.arrays.native.elementwise import unusual
from MNN.expr.arrays.native.making import function, made, waits
from MNN.expr.arrays.native.objects import F32, I32, Arguments, Array, Common, Entry, Object, VarObject
from MNN.expr.arrays.native.operands import is_of, operand, sized
from MNN.expr.arrays.native.parts import alike, count, fresh, kept, kind, numbers, plain, single, wrapped


@typed
def choice(c: Common, y: Object) -> Object:
    """The operand of a choice, which is the caller's; NULL for what is none."""
    if y.type is not c.var:
        return single(c, y)
    found = operand(c, y)
    if found is NULL or not is_of(c, found, c.f32, F32):
        return NULL
    return kept(c, found)


@typed
def fits(c: Common, o: Object, like: Array) -> bool:
    """Whether an operand is one number, or has the sizes of an array."""
    own = sized(c, o)
    return own is not NULL and (own.rank == 0 or alike(own, like, 0))


@typed
def later_choice(c: Common, e: Entry, x: Object, y: Object, z: Object) -> Object:
    """One of two operands, at least one of which is a Var, where the first one is not 0."""
    mask = operand(c, x)
    if mask is NULL or not waits(c, e, mask) or not is_of(c, mask, c.i32, I32) or not sized(c, mask):
        return NULL
    if y.type is not c.var and z.type is not c.var:
        return NULL
    layout = VarObject(y if y.type is c.var else z).layout
    if VarObject(z if z.type is c.var else y).layout is not layout or not function(c, e):
        return NULL
    operands, found = Arguments(pointers(3)), Object(NULL)
    a = choice(c, y)
    b = choice(c, z) if a else Object(NULL)
    if a and b and fits(c, a, sized(c, mask)) and fits(c, b, sized(c, mask)):
        operands[0], operands[1], operands[2] = mask, a, b
        found = made(c, e, 3, operands, mask, layout)
    if b:
        c.release(b)
    if a:
        c.release(a)
    if not found:
        c.clear()
    return found


@written("""
  %wide = and i64 %count, -16
  %same_a = icmp eq i64 %step_a, 0
  %same_b = icmp eq i64 %step_b, 0
  %va = load i32, ptr %a, align 4
  %ia = insertelement <16 x i32> zeroinitializer, i32 %va, i32 0
  %all_a = shufflevector <16 x i32> %ia, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  %vb = load i32, ptr %b, align 4
  %ib = insertelement <16 x i32> zeroinitializer, i32 %vb, i32 0
  %all_b = shufflevector <16 x i32> %ib, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %i1, %chosen ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %tail
body:
  %p_m = getelementptr i32, ptr %mask, i64 %i
  %m = load <16 x i32>, ptr %p_m, align 4
  %true = icmp ne <16 x i32> %m, zeroinitializer
  br i1 %same_a, label %with_a, label %load_a
load_a:
  %p_a = getelementptr i32, ptr %a, i64 %i
  %some_a = load <16 x i32>, ptr %p_a, align 4
  br label %with_a
with_a:
  %av = phi <16 x i32> [ %all_a, %body ], [ %some_a, %load_a ]
  br i1 %same_b, label %chosen, label %load_b
load_b:
  %p_b = getelementptr i32, ptr %b, i64 %i
  %some_b = load <16 x i32>, ptr %p_b, align 4
  br label %chosen
chosen:
  %bv = phi <16 x i32> [ %all_b, %with_a ], [ %some_b, %load_b ]
  %rv = select <16 x i1> %true, <16 x i32> %av, <16 x i32> %bv
  %q = getelementptr i32, ptr %to, i64 %i
  store <16 x i32> %rv, ptr %q, align 4
  %i1 = add i64 %i, 16
  br label %head
tail:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %left = icmp slt i64 %j, %count
  br i1 %left, label %one, label %out
one:
  %p_mj = getelementptr i32, ptr %mask, i64 %j
  %mj = load i32, ptr %p_mj, align 4
  %tj = icmp ne i32 %mj, 0
  %ja = mul i64 %j, %step_a
  %jb = mul i64 %j, %step_b
  %p_aj = getelementptr i32, ptr %a, i64 %ja
  %p_bj = getelementptr i32, ptr %b, i64 %jb
  %aj = load i32, ptr %p_aj, align 4
  %bj = load i32, ptr %p_bj, align 4
  %rj = select i1 %tj, i32 %aj, i32 %bj
  %qj = getelementptr i32, ptr %to, i64 %j
  store i32 %rj, ptr %qj, align 4
  %j1 = add i64 %j, 1
  br label %tail
out:
  ret void
""")
def select(mask: Ints, a: Ints, step_a: int, b: Ints, step_b: int, to: Ints, count: int) -> None:
    """Numbers of 32 bits, at least one: those of ``a`` where the mask is not 0, else those of ``b``, each of which are
    ``step`` (0 or 1) numbers apart."""


@typed
def chosen(c: Common, e: Entry, given: Arguments) -> Object:
    x, y, z = given[0], given[1], given[2]
    later = later_choice(c, e, x, y, z)
    if later:
        return later
    mask, a, b, room = numbers(c, x), numbers(c, y), numbers(c, z), singles(1)
    if not mask or kind(c, mask.element) != I32 or (not a and not b):
        return unusual(c)
    # the one that is no plain number says what comes out
    array, from_array = a if a else b, y if a else z
    number, total = kind(c, array.element), count(array)
    if not F32 <= number <= I32 or not alike(mask, array, 0) or total > e.most:
        return unusual(c)
    if not a or not b:
        if number != F32 or not plain(c, z if a else y, room):
            return unusual(c)
    elif a.element is not b.element or VarObject(y).layout is not VarObject(z).layout or not alike(a, b, 0):
        return unusual(c)
    found = fresh(c, array.element, array.rank, array.extents)
    if not found:
        return NULL
    if total > 0:
        from_a, from_b = a.data if a else Pointer(room), b.data if b else Pointer(room)
        select(Ints(mask.data), Ints(from_a), int(a is not NULL), Ints(from_b), int(b is not NULL), Ints(found.data),
               total)  # fmt: skip
    return wrapped(c, found, from_array)


__all__ = ["chosen"]
