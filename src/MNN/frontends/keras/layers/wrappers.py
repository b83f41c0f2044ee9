"""Layers around layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.recurrent import Run, given_to, last_step, pass_mask, run_layer, state_count
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@keras_layer("TimeDistributed", parts=lambda config: [("layer", config["layer"])], masks=True)
def time_distributed(ctx: KerasContext, node: KerasNode) -> Value:
    """The layer for every step as if steps were samples."""
    x = node.input(0)
    rank = ctx.sizes(x, node.where)
    together = _reshaped(ctx, x, [x], [-1], (x.shape or ())[2:], 2)
    y = ctx.result(node.part.child("layer"), together, masks=[None])
    after = ctx.sizes(y, node.where)
    out = _reshaped(ctx, y, [x], None, (y.shape or ())[1:], 1)
    assert rank >= 2
    assert after >= 1
    return out


def _reshaped(
    ctx: KerasContext, x: Value, like: Sequence[Value], front: list[int] | None, rest: Sequence[Any], skipped: int
) -> Value:
    """``front`` (None: the first two sizes of ``like``), then the sizes ``rest`` of ``x`` from axis ``skipped`` on."""
    known = like[0].shape or ()
    if front is None and sum(not isinstance(d, int) for d in (*known[:2], *rest)) > 1:
        heads = ctx.op("Shape", like[0], hasStart=True, start=0, hasEnd=True, end=2)
        tails = [ctx.op("Shape", x, hasStart=True, start=skipped)] if rest else []
        y = ctx.op("Reshape", x, ctx.op("Concat", heads, *tails, axis=0) if tails else heads)
        y.shape = (*known[:2], *rest)
    elif front is not None and any(not isinstance(d, int) for d in rest):
        tail = ctx.op("Shape", x, hasStart=True, start=skipped)
        y = ctx.op("Reshape", x, ctx.op("Concat", ctx.const(front, DType.I32), tail, axis=0))
        y.shape = (f"{y.name}.0", *rest)
    else:
        heads_known = front if front is not None else [d if isinstance(d, int) else -1 for d in known[:2]]
        y = ctx.op("Reshape", x, ctx.const([*heads_known, *(d if isinstance(d, int) else -1 for d in rest)]))
    y.dtype = x.dtype
    return y


def _directions(config: Config) -> Sequence[tuple[str, Config]]:
    forward = config["layer"]
    backward = config.get("backward_layer")
    if backward is None:
        inner = forward["config"]
        backward = {**forward, "config": {**inner, "go_backwards": not inner.get("go_backwards", False)}}
    return [("forward_layer", forward), ("backward_layer", backward)]


@keras_layer("Bidirectional", parts=_directions)
def bidirectional(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """Both layers over the same steps; what the second one gives is turned around again."""
    parts = [node.part.child(key) for key in ("forward_layer", "backward_layer")]
    counts = [state_count(part.child("cell")) for part in parts]
    given = given_to(ctx, node, sum(counts))
    halves = [given.states[: counts[0]], given.states[counts[0] :]]
    outs, states = [], []
    sequences = bool(parts[0].config.get("return_sequences"))
    for part, first in zip(parts, halves, strict=True):
        inner = KerasNode(part, [], {})
        if inner.bool_attr("time_major"):
            raise node.unsupported("steps before samples in both directions", "save it with time_major=False")
        backwards = inner.bool_attr("go_backwards")
        out, last = run_layer(ctx, inner, Run(given.x, given.mask, first), backwards)
        outs.append(out if sequences else last_step(ctx, out))
        states += last
    if sequences:
        turned = ctx.op("Reverse", outs[1], ctx.const([1], DType.I32))
        turned.dtype, turned.shape = outs[1].dtype, outs[1].shape
        outs[1] = turned
    found = _merged(ctx, node, outs)
    if sequences:
        pass_mask(ctx, node, given, found[0])
    return [*found, *states] if bool(parts[0].config.get("return_state")) else found


def _merged(ctx: KerasContext, node: KerasNode, outs: list[Value]) -> list[Value]:
    mode = node.config.get("merge_mode", "concat")
    if mode is None:
        return outs
    if mode == "concat":
        y = ctx.op("Concat", *outs, axis=len(outs[0].shape or (0, 0)) - 1)
    elif mode in ("sum", "ave"):
        y = binary(ctx, "ADD", *outs)
        y = binary(ctx, "MUL", y, 0.5) if mode == "ave" else y
    elif mode == "mul":
        y = binary(ctx, "MUL", *outs)
    else:
        raise node.unsupported(f"merge_mode={mode!r:.40}", "use concat, sum, ave, mul or None")
    y.dtype = outs[0].dtype
    return [y]
