"""One step of LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.torch.aten.recurrent.layers import layer
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import aten
from MNN.ir.graph import Value


@aten("lstm_cell")
def lstm_cell(
    ctx: TorchBuilder, x: Value, hx: Sequence[Value], w_ih: Value, w_hh: Value, b_ih: Value | None = None,
    b_hh: Value | None = None,
) -> list[Value]:  # fmt: skip
    """One step: a sequence of length 1."""
    weights = [w_ih, w_hh] if b_ih is None or b_hh is None else [w_ih, w_hh, b_ih, b_hh]
    states = [ctx.unsqueeze(s, 0) for s in hx]
    out = layer(ctx, "LSTM", ctx.unsqueeze(x, 0), states, [weights], None)
    return [ctx.squeeze(v, 0) for v in out[1:]]


@aten("gru_cell")
def gru_cell(
    ctx: TorchBuilder,
    x: Value,
    hx: Value,
    w_ih: Value,
    w_hh: Value,
    b_ih: Value | None = None,
    b_hh: Value | None = None,
) -> Value:
    weights = [w_ih, w_hh] if b_ih is None or b_hh is None else [w_ih, w_hh, b_ih, b_hh]
    return ctx.squeeze(layer(ctx, "GRU", ctx.unsqueeze(x, 0), [ctx.unsqueeze(hx, 0)], [weights], None)[1], 0)


@aten("rnn_tanh_cell", "rnn_relu_cell")
def rnn_cell(
    ctx: TorchBuilder,
    x: Value,
    hx: Value,
    w_ih: Value,
    w_hh: Value,
    b_ih: Value | None = None,
    b_hh: Value | None = None,
) -> Value:
    weights = [w_ih, w_hh] if b_ih is None or b_hh is None else [w_ih, w_hh, b_ih, b_hh]
    kind = "tanh" if "tanh" in ctx.name else "relu"
    return ctx.squeeze(layer(ctx, "RNN", ctx.unsqueeze(x, 0), [ctx.unsqueeze(hx, 0)], [weights], kind)[1], 0)
