"""LLVM IR of the entry that chooses one of two numbers where a condition holds."""

from __future__ import annotations

from MNN.expr.arrays.native.entries_ir import HEAD, LATER_EACH, TAIL

_LATER = """
; The operand of a choice, which is the caller's; null for what is none.
define internal ptr @choice(ptr %c, ptr %y) {
  %var = call i1 @is(ptr %c, ptr %y, i64 $var)
  br i1 %var, label %look, label %number
look:
  %o = call ptr @operand(ptr %c, ptr %y)
  %absent = icmp eq ptr %o, null
  br i1 %absent, label %no, label %typed
typed:
  %f32 = call i1 @of_kind(ptr %c, ptr %o, i64 $f32, i64 0)
  br i1 %f32, label %yes, label %no
yes:
  call void @keep(ptr %c, ptr %o)
  ret ptr %o
number:
  %s = call ptr @single(ptr %c, ptr %y)
  ret ptr %s
no:
  ret ptr null
}

; Whether an operand is one number, or has the sizes of an array.
define internal i1 @fits(ptr %c, ptr %o, ptr %like) {
  %own = call ptr @sized(ptr %c, ptr %o)
  %unknown = icmp eq ptr %own, null
  br i1 %unknown, label %no, label %look
look:
  %rank = call i32 @rank(ptr %own)
  %scalar = icmp eq i32 %rank, 0
  %alike = call i1 @alike(ptr %own, ptr %like, i64 0)
  %found = or i1 %scalar, %alike
  ret i1 %found
no:
  ret i1 false
}

; One of two operands, at least one of which is a Var, where the first one is not 0.
define internal ptr @later_choice(ptr %c, ptr %e, ptr %x, ptr %y, ptr %z) {
entry:
  %operands = alloca [3 x ptr], align 8
  %second = getelementptr ptr, ptr %operands, i64 1
  %third = getelementptr ptr, ptr %operands, i64 2
  %m = call ptr @operand(ptr %c, ptr %x)
  %absent = icmp eq ptr %m, null
  br i1 %absent, label %no, label %waiting
waiting:
  %waits = call i1 @waits(ptr %c, ptr %e, ptr %m)
  %i32 = call i1 @of_kind(ptr %c, ptr %m, i64 $i32, i64 1)
  %like = call ptr @sized(ptr %c, ptr %m)
  %known = icmp ne ptr %like, null
  %y_var = call i1 @is(ptr %c, ptr %y, i64 $var)
  %z_var = call i1 @is(ptr %c, ptr %z, i64 $var)
  %any = or i1 %y_var, %z_var
  %g1 = and i1 %waits, %i32
  %g2 = and i1 %known, %any
  %g3 = and i1 %g1, %g2
  br i1 %g3, label %layouts, label %no
layouts:
  %from = select i1 %y_var, ptr %y, ptr %z
  %too = select i1 %z_var, ptr %z, ptr %y
  %layout = call ptr @at(ptr %from, i64 $V_layout)
  %layout_z = call ptr @at(ptr %too, i64 $V_layout)
  %laid = icmp eq ptr %layout, %layout_z
  br i1 %laid, label %ask, label %no
ask:
  %function = call ptr @function(ptr %c, ptr %e)
  %able = icmp ne ptr %function, null
  br i1 %able, label %take, label %no
take:
  %a = call ptr @choice(ptr %c, ptr %y)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %lost, label %next
next:
  %b = call ptr @choice(ptr %c, ptr %z)
  %no_b = icmp eq ptr %b, null
  br i1 %no_b, label %drop_a, label %both
both:
  %fits_a = call i1 @fits(ptr %c, ptr %a, ptr %like)
  %fits_b = call i1 @fits(ptr %c, ptr %b, ptr %like)
  %fit = and i1 %fits_a, %fits_b
  br i1 %fit, label %make, label %drop_b
make:
  store ptr %m, ptr %operands, align 8
  store ptr %a, ptr %second, align 8
  store ptr %b, ptr %third, align 8
  %v = call ptr @deferred(ptr %c, ptr %function, i64 3, ptr %operands, ptr %m, ptr %layout)
  br label %drop_b
drop_b:
  %found = phi ptr [ null, %both ], [ %v, %make ]
  call void @drop(ptr %c, ptr %b)
  br label %drop_a
drop_a:
  %given = phi ptr [ null, %next ], [ %found, %drop_b ]
  call void @drop(ptr %c, ptr %a)
  %done = icmp ne ptr %given, null
  br i1 %done, label %out, label %lost
out:
  ret ptr %given
lost:
  call void @forget(ptr %c)
  br label %no
no:
  ret ptr null
}
"""
CHOSEN = (
    _LATER
    + HEAD.replace("$rooms", "%room = alloca float, align 4").replace("$operands", "3")
    + """
  %p_given1 = getelementptr ptr, ptr %args, i64 1
  %given1 = load ptr, ptr %p_given1, align 8
  %p_given2 = getelementptr ptr, ptr %args, i64 2
  %given2 = load ptr, ptr %p_given2, align 8
"""
    + LATER_EACH.replace(
        "@later_each(ptr %c, ptr %e, ptr %x)",
        "@later_choice(ptr %c, ptr %e, ptr %x, ptr %given1, ptr %given2)",
    )
    + """
  %m = call ptr @numbers(ptr %c, ptr %x)
  %no_m = icmp eq ptr %m, null
  br i1 %no_m, label %slow, label %mask
mask:
  %mask_element = call ptr @element(ptr %m)
  %mask_kind = call i64 @kind(ptr %c, ptr %mask_element)
  %is_int = icmp eq i64 %mask_kind, 1
  br i1 %is_int, label %operands, label %slow
operands:
  %p_y = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p_y, align 8
  %p_z = getelementptr ptr, ptr %args, i64 2
  %z = load ptr, ptr %p_z, align 8
  %a = call ptr @numbers(ptr %c, ptr %y)
  %b = call ptr @numbers(ptr %c, ptr %z)
  %no_a = icmp eq ptr %a, null
  %no_b = icmp eq ptr %b, null
  %neither = and i1 %no_a, %no_b
  br i1 %neither, label %slow, label %like
like:  ; the one that is no plain number says what comes out
  %given = select i1 %no_a, ptr %z, ptr %y
  %array = select i1 %no_a, ptr %b, ptr %a
  %layout = call ptr @layout(ptr %c, ptr %given)
  %element = call ptr @element(ptr %array)
  %k = call i64 @kind(ptr %c, ptr %element)
  %small = icmp ult i64 %k, 2
  %sized = call i1 @alike(ptr %m, ptr %array, i64 0)
  %able = and i1 %small, %sized
  br i1 %able, label %rest, label %slow
rest:
  %both = or i1 %no_a, %no_b
  br i1 %both, label %number, label %pair
number:
  %is_f32 = icmp eq i64 %k, 0
  br i1 %is_f32, label %read, label %slow
read:
  %other = select i1 %no_a, ptr %y, ptr %z
  %met = call i1 @plain(ptr %c, ptr %other, ptr %room)
  br i1 %met, label %make, label %slow
pair:
  %b_element = call ptr @element(ptr %b)
  %b_layout = call ptr @layout(ptr %c, ptr %z)
  %same = icmp eq ptr %element, %b_element
  %laid = icmp eq ptr %layout, %b_layout
  %alike = call i1 @alike(ptr %a, ptr %b, i64 0)
  %g1 = and i1 %same, %laid
  %g2 = and i1 %g1, %alike
  br i1 %g2, label %make, label %slow
make:
  %rank = call i32 @rank(ptr %array)
  %sizes = call ptr @extents(ptr %array)
  %all = call i64 @count(ptr %array)
  %p_limit = getelementptr i8, ptr %e, i64 24
  %limit = load i64, ptr %p_limit, align 8
  %countable = icmp sle i64 %all, %limit
  br i1 %countable, label %create, label %slow
create:
  %r = call ptr @fresh(ptr %c, ptr %element, i32 %rank, ptr %sizes)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %run
run:
  %to = call ptr @data(ptr %r)
  %where = call ptr @data(ptr %m)
  br i1 %no_a, label %a_number, label %a_array
a_array:
  %from_a0 = call ptr @data(ptr %a)
  br label %a_known
a_number:
  br label %a_known
a_known:
  %from_a = phi ptr [ %from_a0, %a_array ], [ %room, %a_number ]
  %step_a = phi i64 [ 1, %a_array ], [ 0, %a_number ]
  br i1 %no_b, label %b_number, label %b_array
b_array:
  %from_b0 = call ptr @data(ptr %b)
  br label %b_known
b_number:
  br label %b_known
b_known:
  %from_b = phi ptr [ %from_b0, %b_array ], [ %room, %b_number ]
  %step_b = phi i64 [ 1, %b_array ], [ 0, %b_number ]
  %wide = and i64 %all, -16
  br i1 %no_a, label %same_a, label %mixed
same_a:
  %va = load i32, ptr %from_a, align 4
  %ia = insertelement <16 x i32> zeroinitializer, i32 %va, i32 0
  %splat_a = shufflevector <16 x i32> %ia, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  br label %mixed
mixed:
  %all_a = phi <16 x i32> [ zeroinitializer, %b_known ], [ %splat_a, %same_a ]
  br i1 %no_b, label %same_b, label %walk
same_b:
  %vb = load i32, ptr %from_b, align 4
  %ib = insertelement <16 x i32> zeroinitializer, i32 %vb, i32 0
  %splat_b = shufflevector <16 x i32> %ib, <16 x i32> zeroinitializer, <16 x i32> zeroinitializer
  br label %walk
walk:
  %all_b = phi <16 x i32> [ zeroinitializer, %mixed ], [ %splat_b, %same_b ]
  br label %head
head:
  %i = phi i64 [ 0, %walk ], [ %i1, %body_out ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %tail
body:
  %p_m = getelementptr i32, ptr %where, i64 %i
  %mv = load <16 x i32>, ptr %p_m, align 4
  %true = icmp ne <16 x i32> %mv, zeroinitializer
  br i1 %no_a, label %body_b, label %body_a
body_a:
  %p_av = getelementptr i32, ptr %from_a, i64 %i
  %av0 = load <16 x i32>, ptr %p_av, align 4
  br label %body_b
body_b:
  %av = phi <16 x i32> [ %all_a, %body ], [ %av0, %body_a ]
  br i1 %no_b, label %body_out, label %body_b0
body_b0:
  %p_bv = getelementptr i32, ptr %from_b, i64 %i
  %bv0 = load <16 x i32>, ptr %p_bv, align 4
  br label %body_out
body_out:
  %bv = phi <16 x i32> [ %all_b, %body_b ], [ %bv0, %body_b0 ]
  %rv = select <16 x i1> %true, <16 x i32> %av, <16 x i32> %bv
  %q = getelementptr i32, ptr %to, i64 %i
  store <16 x i32> %rv, ptr %q, align 4
  %i1 = add i64 %i, 16
  br label %head
tail:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %left = icmp slt i64 %j, %all
  br i1 %left, label %one, label %wrap
one:
  %p_mj = getelementptr i32, ptr %where, i64 %j
  %mj = load i32, ptr %p_mj, align 4
  %tj = icmp ne i32 %mj, 0
  %ja = mul i64 %j, %step_a
  %jb = mul i64 %j, %step_b
  %p_aj = getelementptr i32, ptr %from_a, i64 %ja
  %p_bj = getelementptr i32, ptr %from_b, i64 %jb
  %aj = load i32, ptr %p_aj, align 4
  %bj = load i32, ptr %p_bj, align 4
  %rj = select i1 %tj, i32 %aj, i32 %bj
  %qj = getelementptr i32, ptr %to, i64 %j
  store i32 %rj, ptr %qj, align 4
  %j1 = add i64 %j, 1
  br label %tail
wrap:
  %v = call ptr @wrapped(ptr %c, ptr %r, ptr %layout)
  ret ptr %v
"""
    + TAIL
)

__all__ = ["CHOSEN"]
