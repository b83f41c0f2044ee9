"""The verifiers of primitives, groups and programs: what is sound passes, each kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Buffer, Located, Program, Ref
from MNN.backends.base.space import MemorySpace
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.targets.base import host_target
from MNN.compiler.fuse import Group
from MNN.compiler.verify_program import verify_groups, verify_program, wanted
from MNN.errors import MNNError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.verify_primitives import ProgramError, verify_primitives
from MNN.ops.core.builder import Builder


def built() -> tuple[list[Prim], list[Tensor], list[Tensor]]:
    """A lowered program with most primitives in it."""
    b, x = Builder(), Tensor(DType.F32, (2, 8, 9, 9), name="x")
    rng = np.random.default_rng(0)
    y = b.conv(x, b.const(rng.normal(size=(8, 8, 3, 3)).astype(np.float32)), (2, 2), (1, 1), 1, (1, 1, 1, 1))
    y = b.op("exp", b.op("mul", y, b.const(np.full((8, 1, 1), 0.1, np.float32))))
    y = b.window("max", y, (2, 2), (2, 2), (1, 1))
    y = b.permute(b.reshape(y, (2, 8, 4)), (0, 2, 1))
    y = b.matmul(y, b.const(rng.normal(size=(1, 8, 5)).astype(np.float32)))
    y = b.concat([y, b.slice(y, (0, 0, 1), (2, 4, 2))], 2)
    y = b.op("div", y, b.reduce("sum", y, (2,)))
    return b.prims, [x], [y]


def test_what_is_sound_passes() -> None:
    prims, inputs, outputs = built()
    verify_primitives(prims, inputs, outputs, "test")
    assert wanted(), "tests run with MNN_VERIFY=1"


def resized(prim: Prim) -> None:
    prim.outputs[0].shape = (*prim.outputs[0].shape[:-1], prim.outputs[0].shape[-1] + 1)


def retyped(prim: Prim) -> None:
    prim.outputs[0].dtype = DType.I32


DAMAGE: dict[str, tuple[type[Prim], Callable[..., None], str]] = {
    **{f"size of {k.__name__}": (k, resized, "") for k in (p.Conv, p.Map, p.Window, p.Reshape, p.MatMul, p.Reduce)},
    **{f"type of {k.__name__}": (k, retyped, "should be") for k in (p.Conv, p.Map, p.MatMul, p.Reduce, p.Pad)},
    "permutation": (p.Permute, lambda q: setattr(q, "perm", (0, 0, 1)), "is no permutation"),
    "slice": (p.Slice, lambda q: setattr(q, "starts", (0, 0, 4)), "are not within 5"),
    "border": (p.Pad, lambda q: setattr(q, "low", (0, 0, -1, 1)), "negative"),
    "concatenation": (p.Concat, lambda q: setattr(q, "axis", 1), ""),
    "groups": (p.Conv, lambda q: setattr(q, "groups", 3), "are not 3 groups"),
    "windows": (p.Window, lambda q: setattr(q, "kernel", (5, 5)), "are not within"),
    "made twice": (p.Conv, lambda q: q.outputs.append(q.outputs[0]), "made twice"),
    "used before": (p.Conv, lambda q: q.inputs.__setitem__(0, Tensor(DType.F32, (2, 8, 11, 11))), "before it is made"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_primitives_are_found(name: str) -> None:
    kind, damage, words = DAMAGE[name]
    prims, inputs, outputs = built()
    damage(next(q for q in prims if isinstance(q, kind)))
    with pytest.raises(ProgramError, match=rf"test: .*{words}"):
        verify_primitives(prims, inputs, outputs, "test")


def test_an_output_that_is_never_made() -> None:
    prims, inputs, _ = built()
    with pytest.raises(ProgramError, match="never made"):
        verify_primitives(prims, inputs, [Tensor(DType.F32, (1,))], "test")


def test_damaged_groups_are_found() -> None:
    prims, inputs, _ = built()
    groups = [Group("single", [q], q.outputs[0].shape) for q in prims if not isinstance(q, (p.Permute, p.Reshape))]
    groups = [g for g in groups if not isinstance(g.root, p.Slice)]
    verify_groups(groups, prims, inputs)
    for damaged, words in (
        (groups[:-1], "in no group"),
        ([*groups, groups[0]], "two groups"),
        ([*groups[1:], groups[0]], "before"),
    ):
        with pytest.raises(ProgramError, match=words):
            verify_groups(damaged, prims, inputs)


def program() -> Program:
    prims, inputs, outputs = built()
    return compile_stage(prims, inputs, outputs, host_target(), Options(), ConstantPool())


def over_another(made: Program) -> None:
    """Places what a command reads over what it writes."""
    command = next(c for c in made.commands if len([b for b in c.buffers() if not b.pinned]) > 1)
    one, other = [b for b in command.buffers() if not b.pinned][:2]
    one.offset = other.offset
    one.nbytes = other.nbytes + 1


def far_off(made: Program) -> None:
    slot, ref = next((k, v) for k, v in made.commands[0].args.items() if isinstance(v, Ref))
    made.commands[0].args[slot] = Ref(ref.buffer, 1 << 40)


BROKEN: dict[str, tuple[Callable[[Program], object], str]] = {
    "arena": (lambda m: setattr(m, "arena_bytes", 64), "not within the arena"),
    "address": (far_off, "bytes into a buffer"),
    "arguments": (lambda m: m.commands[0].args.popitem(), "are not"),
    "blocks": (lambda m: setattr(m.commands[0], "blocks", 0), "0 blocks"),
    "nothing to call": (lambda m: setattr(m.commands[0], "kernel", None), "or neither"),
    "memory space": (
        lambda m: setattr(m.commands[0].buffers()[0], "space", MemorySpace("elsewhere")),
        "not in host memory",
    ),
    "shared memory": (over_another, "at the same time"),
    "output": (
        lambda m: m.outputs.__setitem__(0, Located(DType.F32, (99, 99), m.outputs[0].place)),
        r"output 0 of the program: f32\[99, 99\] has 2 dimensions and 3 strides",
    ),
    "large output": (
        lambda m: m.outputs.__setitem__(0, Located(DType.F32, (99, 99, 99), m.outputs[0].place)),
        "output 0 of the program: .* reaches beyond its buffer",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_programs_are_found(name: str) -> None:
    damage, words = BROKEN[name]
    made = program()
    verify_program(made)
    damage(made)
    for command in made.commands:  # they remember what they were asked
        command._refs = command._buffers = None
    with pytest.raises(ProgramError, match=words):
        verify_program(made)


def test_a_buffer_nobody_placed() -> None:
    made = program()
    command = made.commands[-1]
    slot = next(k for k, v in command.args.items() if isinstance(v, Ref) and v.buffer.const is None)
    command.args[slot] = Ref(Buffer(64), 0)
    command._refs = command._buffers = None
    with pytest.raises(ProgramError, match="not within the arena"):
        verify_program(made)


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_VERIFY", "yes")
    with pytest.raises(MNNError, match="MNN_VERIFY is 'yes'; set it to 1"):
        wanted()
