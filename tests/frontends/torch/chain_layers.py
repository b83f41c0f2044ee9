"""Layers of torch.nn with drawn options of their constructors, for :mod:`tests.frontends.torch.random_chains`.

An entry draws the text of a layer that may take ``x``, and how it is called where that is not ``x = self.{}(x)``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from torch import Tensor

Layer = Callable[[random.Random, Tensor], Any]
LAYERS: dict[str, Layer] = {}


def entry(*names: str) -> Callable[[Layer], Layer]:
    """Several names are several chances."""

    def add(function: Layer) -> Layer:
        for name in names or (function.__name__,):
            LAYERS[name] = function
        return function

    return add


def _spatial(x: Tensor) -> int:
    """1 to 3, or an error that says that the tensor is no image."""
    return {3: 1, 4: 2, 5: 3}.get(x.dim()) or [].index(0)


def _each(r: random.Random, n: int, *choices: object) -> object:
    """One for all axes, or one for each."""
    return r.choice(choices) if r.random() < 0.6 else tuple(r.choice(choices) for _ in range(n))


def _flag(r: random.Random) -> bool:
    return r.random() < 0.5


@entry("conv", "conv_again")
def _conv(r: random.Random, x: Tensor) -> str:
    n, c = _spatial(x), x.shape[1]
    groups = r.choice([g for g in (1, 1, 2, 3, c) if c % g == 0])
    stride = _each(r, n, 1, 1, 2)
    padding = r.choice([0, 1, 2, "'same'", "'valid'"]) if stride == 1 else _each(r, n, 0, 1)
    mode = r.choice(["zeros", "zeros", "reflect", "replicate", "circular"])
    return (
        f"nn.Conv{n}d({c}, {groups * r.randint(1, 4)}, {_each(r, n, 1, 2, 3)}, {stride}, {padding}, "
        f"{_each(r, n, 1, 1, 2)}, {groups}, {_flag(r)}, '{mode}')"
    )


@entry()
def conv_transpose(r: random.Random, x: Tensor) -> Any:
    n, c = _spatial(x), x.shape[1]
    groups = r.choice([g for g in (1, 2, c) if c % g == 0])
    stride = r.choice([1, 2, 3])
    made = (
        f"nn.ConvTranspose{n}d({c}, {groups * r.randint(1, 3)}, {_each(r, n, 1, 2, 3, 4)}, {stride}, "
        f"{r.choice([0, 1])}, {r.choice([0, stride - 1])}, {groups}, {_flag(r)}, {r.choice([1, 1, 2])})"
    )
    if stride == 2 and r.random() < 0.3:
        sizes = ", ".join(f"x.size({i}) * 2" for i in range(2, 2 + n))
        made = f"nn.ConvTranspose{n}d({c}, 3, 3, 2, 1)"
        return made, f"x = self.{{}}(x, output_size=[{sizes}])"
    return made


@entry("pool", "pool_again")
def _pool(r: random.Random, x: Tensor) -> str:
    n = _spatial(x)
    size = _each(r, n, 2, 3)
    more = f"stride={r.choice([None, 1, 2, 3])}, ceil_mode={_flag(r)}"
    return r.choice([
        f"nn.MaxPool{n}d({size}, padding={r.choice([0, 1])}, dilation={r.choice([1, 1, 2])}, {more})",
        f"nn.AvgPool{n}d({size}, padding={r.choice([0, 1])}, count_include_pad={_flag(r)}, {more}"
        + (f", divisor_override={r.choice([None, 3])})" if n > 1 else ")"),
        f"nn.LPPool{n}d({r.choice([1, 2, 3.0])}, {size}, {more})",
    ])  # fmt: skip


@entry()
def adaptive_pool(r: random.Random, x: Tensor) -> str:
    n = _spatial(x)
    sizes = [r.choice([1, 2, 3, 4, 7, None]) for _ in range(n)]
    size = sizes[0] or 2 if n == 1 or _flag(r) else tuple(sizes)
    return f"nn.Adaptive{r.choice(['Avg', 'Max'])}Pool{n}d({size})"


@entry()
def pool_and_back(r: random.Random, x: Tensor) -> Any:
    n = _spatial(x)
    return f"nn.MaxUnpool{n}d(2)", (
        f"y, i = F.max_pool{n}d(x, 2, return_indices=True)\nx = self.{{}}(y, i, output_size=x.shape)"
        if _flag(r)
        else f"y, i = F.max_pool{n}d(x, 2, return_indices=True)\nx = self.{{}}(y, i)"
    )


@entry()
def batch_norm(r: random.Random, x: Tensor) -> str:
    n = 1 if x.dim() == 2 else _spatial(x)
    return (
        f"nn.BatchNorm{n}d({x.shape[1]}, eps={r.choice([1e-5, 1e-2])}, affine={_flag(r)}, "
        f"track_running_stats={r.random() < 0.8}, momentum={r.choice([0.1, None])})"
    )


@entry()
def instance_norm(r: random.Random, x: Tensor) -> str:
    return f"nn.InstanceNorm{_spatial(x)}d({x.shape[1]}, affine={_flag(r)}, track_running_stats={_flag(r)})"


@entry()
def other_norms(r: random.Random, x: Tensor) -> str:
    c, shape = x.shape[1], list(x.shape[r.randint(1, x.dim() - 1) :])
    return r.choice([
        f"nn.GroupNorm({r.choice([g for g in (1, 2, 3, c) if c % g == 0])}, {c}, affine={_flag(r)})",
        f"nn.LayerNorm({shape}, elementwise_affine={_flag(r)}, bias={_flag(r)})",
        f"nn.RMSNorm({shape}, eps={r.choice([None, 1e-3])}, elementwise_affine={_flag(r)})",
        f"nn.LocalResponseNorm({r.choice([1, 2, 3])}, alpha={r.choice([1e-4, 0.3])}, beta=0.6, k={r.choice([1, 2.0])})",
        "nn.CrossMapLRN2d(3, 0.1, 0.7, 1.0)",
    ])  # fmt: skip


@entry("activation", "activation_again")
def _activation(r: random.Random, x: Tensor) -> str:
    dim = r.randint(-x.dim(), x.dim() - 1)
    inplace = f"inplace={_flag(r)}"
    return r.choice([
        f"nn.ReLU({inplace})", f"nn.ReLU6({inplace})", f"nn.LeakyReLU({r.choice([0.01, 0.3])}, {inplace})",
        f"nn.ELU({r.choice([1.0, 0.4])}, {inplace})", f"nn.SELU({inplace})", f"nn.CELU({r.choice([1.0, 2.5])})",
        f"nn.GELU('{r.choice(['none', 'tanh'])}')", f"nn.SiLU({inplace})", f"nn.Mish({inplace})",
        f"nn.Hardtanh(-0.5, {r.choice([0.7, 2])}, {inplace})", f"nn.Hardswish({inplace})",
        f"nn.Hardsigmoid({inplace})", f"nn.Hardshrink({r.choice([0.5, 0.1])})",
        f"nn.Softshrink({r.choice([0.5, 0.1])})",
        "nn.Tanhshrink()", "nn.Softsign()", f"nn.Softplus({r.choice([1, 2.5])}, {r.choice([20, 1.5])})",
        f"nn.Threshold(0.1, -0.5, {inplace})", "nn.LogSigmoid()", "nn.Sigmoid()", "nn.Tanh()", f"nn.GLU({dim})",
        f"nn.Softmax({dim})", f"nn.LogSoftmax({dim})", f"nn.Softmin({dim})", "nn.Softmax2d()",
        f"nn.PReLU({r.choice([1, x.shape[1]])}, 0.2)", f"nn.RReLU(0.1, 0.3, {inplace})", "nn.Identity()",
        f"nn.Dropout(0.5, {inplace})", "nn.AlphaDropout()", "nn.FeatureAlphaDropout()",
        f"nn.Dropout{r.choice([1, 2, 3])}d()",
    ])  # fmt: skip


@entry()
def padding(r: random.Random, x: Tensor) -> str:
    n = _spatial(x)
    sizes = tuple(r.choice([0, 1, 2]) for _ in range(2 * n))
    size = r.choice([1, 2, sizes, sizes])
    kind = r.choice(["Zero", "Constant", "Reflection", "Replication", "Circular"])
    cut = tuple(r.choice([-1, 0, 2]) for _ in range(2 * n))
    return f"nn.{kind}Pad{n}d({cut if kind == 'Constant' else size}" + (", 0.7)" if kind == "Constant" else ")")


@entry()
def resized(r: random.Random, x: Tensor) -> str:
    n = _spatial(x)
    mode = r.choice(["nearest", {1: "linear", 2: "bilinear", 3: "trilinear"}[n], "bicubic" if n == 2 else "nearest"])
    corners = "" if mode == "nearest" else f", align_corners={_flag(r)}"
    size = f"size={tuple(r.randint(2, 9) for _ in range(n))}"
    scale = f"scale_factor={r.choice([2, 1.5, 0.7, tuple(r.choice([1.0, 2.0, 1.3]) for _ in range(n))])}"
    more = f", recompute_scale_factor={r.choice([None, True])}" if scale else ""
    if n == 2 and r.random() < 0.2:
        return r.choice(["nn.UpsamplingNearest2d(scale_factor=2)", "nn.UpsamplingBilinear2d(size=(5, 9))"])
    return (
        f"nn.Upsample({size}, mode='{mode}'{corners})"
        if _flag(r)
        else (f"nn.Upsample({scale}, mode='{mode}'{corners}{more})")
    )


@entry()
def linear(r: random.Random, x: Tensor) -> Any:
    c = x.shape[-1]
    return r.choice([
        f"nn.Linear({c}, {r.randint(1, 9)}, {_flag(r)})",
        (f"nn.Bilinear({c}, {c}, {r.randint(1, 5)}, {_flag(r)})", "x = self.{}(x, torch.tanh(x))"),
        f"nn.Sequential(nn.Linear({c}, 4), nn.Tanh(), nn.Linear(4, {c}))",
    ])  # fmt: skip


@entry("recurrent", "recurrent_again")
def _recurrent(r: random.Random, x: Tensor) -> Any:
    if x.dim() not in (2, 3):
        return None
    c, hidden = x.shape[-1], r.randint(2, 6)
    kind = r.choice(["LSTM", "GRU", "RNN"])
    more = f"num_layers={r.choice([1, 1, 2])}, bias={_flag(r)}, batch_first={_flag(r)}, bidirectional={_flag(r)}"
    more += f", nonlinearity='{r.choice(['tanh', 'relu'])}'" if kind == "RNN" else ""
    more += f", proj_size={r.choice([0, 1])}" if kind == "LSTM" else ""
    use = r.choice(["x, h = self.{}(x)", "y, h = self.{}(x)\nx = y * 2"] + ["y, x = self.{}(x)"] * (kind != "LSTM"))
    if kind == "LSTM" and r.random() < 0.3:
        use = "y, h = self.{}(x)\nx = torch.cat([h[1], h[1] * 2], 0)"
    return f"nn.{kind}({c}, {hidden}, {more})", use


@entry()
def recurrent_cell(r: random.Random, x: Tensor) -> Any:
    if x.dim() != 3:
        return None
    c = x.shape[-1]
    kind = r.choice(["LSTMCell", "GRUCell", "RNNCell"])
    made = f"nn.{kind}({c}, {c}, bias={_flag(r)})"
    if kind == "LSTMCell":
        return made, "h, k = self.{0}(x[:, 0])\nh, k = self.{0}(x[:, -1], (h, k))\nx = h + k"
    return made, "h = self.{0}(x[:, 0])\nh = self.{0}(x[:, -1], h)\nx = h"


@entry()
def attention(r: random.Random, x: Tensor) -> Any:
    if x.dim() not in (2, 3):
        return None
    c = x.shape[-1]
    heads = r.choice([h for h in (1, 2, 3) if c % h == 0])
    made = (
        f"nn.MultiheadAttention({c}, {heads}, bias={_flag(r)}, add_bias_kv={r.random() < 0.3}, "
        f"add_zero_attn={r.random() < 0.3}, batch_first={_flag(r)})"
    )
    return made, r.choice([
        "x, _ = self.{}(x, x, x)", "x, _ = self.{}(x, x, x, need_weights=False)", "y, x = self.{}(x, x, x)",
        "y, w = self.{}(x, x * 2, x, average_attn_weights=False)\nx = w",
    ])  # fmt: skip


@entry()
def transformer_layer(r: random.Random, x: Tensor) -> Any:
    if x.dim() != 3:
        return None
    c = x.shape[-1]
    heads = r.choice([h for h in (1, 2) if c % h == 0])
    more = (
        f"{c}, {heads}, dim_feedforward=7, activation='{r.choice(['relu', 'gelu'])}', batch_first={_flag(r)}, "
        f"norm_first={_flag(r)}, bias={_flag(r)}"
    )
    if _flag(r):
        return f"nn.TransformerDecoderLayer({more})", "x = self.{}(x, x * 0.5)"
    return r.choice([
        f"nn.TransformerEncoderLayer({more})",
        f"nn.TransformerEncoder(nn.TransformerEncoderLayer({more}), 2, nn.LayerNorm({c}))",
    ])  # fmt: skip


@entry()
def rearranged(r: random.Random, x: Tensor) -> Any:
    c = x.shape[1]
    return r.choice([
        "nn.PixelShuffle(2)", "nn.PixelUnshuffle(2)",
        f"nn.ChannelShuffle({r.choice([g for g in (1, 2, 3) if c % g == 0])})", "nn.Flatten()",
        f"nn.Flatten({r.randint(0, 1)}, -2)", f"nn.Unflatten(1, ({c}, 1))",
        f"nn.Unfold({r.choice([2, 3, (2, 3)])}, dilation={r.choice([1, 2])}, padding={r.choice([0, 1])}, "
        f"stride={r.choice([1, 2])})",
        ("nn.Fold((9, 8), 2, padding=1, stride=2)", "x = F.unfold(x, 1)\nx = self.{}(x)"),
    ])  # fmt: skip


@entry()
def embedding(r: random.Random, x: Tensor) -> Any:
    index = "(x.abs() * 3).long().clamp(0, 9)"
    made = f"nn.Embedding(10, {r.randint(1, 5)}, padding_idx={r.choice([None, 0])})"
    bag = (
        f"nn.EmbeddingBag(10, {r.randint(1, 5)}, mode='{r.choice(['sum', 'mean', 'max'])}', "
        f"padding_idx={r.choice([None, 0, 3])}, include_last_offset={_flag(r)})"
    )
    offsets = f"i = {index}.flatten()[:4]\nx = self.{{}}(i, torch.tensor([0, 2, 2, 4]))"
    return r.choice([
        (made, f"x = self.{{}}({index})"),
        (bag, f"x = self.{{}}({index}.flatten(1))"),
        (bag, offsets),
        (bag.replace("'max'", "'sum'").replace("'mean'", "'sum'"),
         f"x = self.{{}}({index}.flatten(1), per_sample_weights=x.flatten(1))"),
    ])  # fmt: skip


@entry()
def distances(r: random.Random, x: Tensor) -> Any:
    return r.choice([
        (f"nn.CosineSimilarity({r.randint(0, x.dim() - 1)})", "x = self.{}(x, torch.sin(x))"),
        (f"nn.PairwiseDistance({r.choice([1, 2, 3.0])}, keepdim={_flag(r)})", "x = self.{}(x, torch.sin(x))"),
    ])  # fmt: skip


@entry()
def losses(r: random.Random, x: Tensor) -> Any:
    how = f"reduction='{r.choice(['none', 'mean', 'sum'])}'"
    other, classes = "torch.sin(x)", f"x.argmax(1) % {x.shape[1]}"
    either = "(x > 0).float() * 2 - 1"
    return r.choice([
        (f"nn.MSELoss({how})", f"x = self.{{}}(x, {other})"), (f"nn.L1Loss({how})", f"x = self.{{}}(x, {other})"),
        (f"nn.SmoothL1Loss({how}, beta=0.3)", f"x = self.{{}}(x, {other})"),
        (f"nn.HuberLoss({how}, delta=0.4)", f"x = self.{{}}(x, {other})"),
        (f"nn.CrossEntropyLoss({how}, label_smoothing={r.choice([0.0, 0.2])}, ignore_index={r.choice([-100, 1])})",
         f"x = self.{{}}(x, {classes})"),
        (f"nn.NLLLoss({how})", f"x = self.{{}}(F.log_softmax(x, 1), {classes})"),
        (f"nn.KLDivLoss({how}, log_target={_flag(r)})", "x = self.{}(F.log_softmax(x, -1), F.softmax(x * 2, -1))"),
        (f"nn.BCELoss({how})", "x = self.{}(torch.sigmoid(x), torch.sigmoid(x * 2))"),
        (f"nn.BCEWithLogitsLoss({how}, pos_weight=torch.tensor(1.5))", "x = self.{}(x, torch.sigmoid(x * 2))"),
        (f"nn.PoissonNLLLoss({_flag(r)}, {_flag(r)}, {how})", "x = self.{}(torch.sigmoid(x) + 0.1, x.abs())"),
        (f"nn.GaussianNLLLoss(full={_flag(r)}, {how})", f"x = self.{{}}(x, {other}, x.abs() + 0.1)"),
        (f"nn.SoftMarginLoss({how})", f"x = self.{{}}(x, {either})"),
        (f"nn.HingeEmbeddingLoss(0.5, {how})", f"x = self.{{}}(x, {either})"),
        (f"nn.MarginRankingLoss(0.5, {how})", f"x = self.{{}}(x, {other}, {either})"),
        (f"nn.MultiMarginLoss({r.choice([1, 2])}, {how})", f"x = self.{{}}(x, {classes})"),
        (f"nn.MultiLabelMarginLoss({how})", "x = self.{}(x, x.argsort(1) - 1)"),
        (f"nn.MultiLabelSoftMarginLoss({how})", "x = self.{}(x, (x > 0).float())"),
        (f"nn.CosineEmbeddingLoss(0.1, {how})", "x = self.{}(x, torch.sin(x), (x[:, 0] > 0).long() * 2 - 1)"),
        (f"nn.TripletMarginLoss(0.5, {r.choice([1.0, 2.0])}, swap={_flag(r)}, {how})",
         f"x = self.{{}}(x, {other}, torch.cos(x))"),
        (f"nn.TripletMarginWithDistanceLoss(swap={_flag(r)}, {how})", f"x = self.{{}}(x, {other}, torch.cos(x))"),
        (f"nn.CTCLoss({r.choice([0, 1])}, {how}, zero_infinity=True)",
         "x = self.{}(F.log_softmax(x, -1), torch.ones([x.size(1), 2], dtype=torch.long) * 1, "
         "torch.full([x.size(1)], x.size(0)), torch.full([x.size(1)], 1))"),
    ])  # fmt: skip
