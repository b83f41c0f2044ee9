"""Functions and methods of tensors with drawn arguments, for :mod:`tests.frontends.torch.random_chains`.

An entry draws statements that read and assign ``x``; they take other sizes of ``x`` too wherever torch allows it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from torch import Tensor

Method = Callable[[random.Random, Tensor], "str | None"]
METHODS: dict[str, Method] = {}


def entry(*names: str) -> Callable[[Method], Method]:
    """Several names are several chances."""

    def add(function: Method) -> Method:
        for name in names or (function.__name__,):
            METHODS[name] = function
        return function

    return add


def _dim(r: random.Random, x: Tensor, low: int = 0) -> int:
    dim = r.randint(low, x.dim() - 1)
    return dim - x.dim() if r.random() < 0.4 else dim


def _flag(r: random.Random) -> bool:
    return r.random() < 0.5


@entry()
def elementwise(r: random.Random, x: Tensor) -> str:
    a = f"{r.uniform(-2, 2):.2f}"
    return "x = " + r.choice([
        "x.abs().sqrt()", "torch.exp(-x.abs())", "x.sin() * x.cos()", "torch.log1p(x.abs())", f"x * {a} + 1",
        "x - x.mean()", f"torch.pow(x.abs() + 0.1, {a})", "x.tanh().atan2(x.cos())", "x.erf()",
        "torch.logaddexp(x, x.flip(-1))", "x / (1 + x.abs())", f"torch.lerp(x, x.sin(), {abs(float(a)) / 2:.2f})",
        "torch.hypot(x, x.cos())", f"torch.addcmul(x, x.sin(), x.cos(), value={a})", "x.round(decimals=1)", "x // 0.7",
        "x % 0.7", "x.fmod(0.7)", "x.floor() + x.frac()", "torch.where(x > 0.1, x, x * 0.1)",
        "torch.where(x > 0.1, 1.0, x)", "x.sign() * x.square()",
        f"x.clamp({r.choice(['min=-0.5', 'max=0.5', '-0.5, 0.5', 'torch.full_like(x, -0.3), None'])})", "x.rsub(1.5)",
        "torch.nan_to_num(x / (x > 0), 0.0, 3.0, -3.0)", "torch.expm1(x.clamp(max=1))", "x.heaviside(x * 0 + 0.5)",
        "torch.minimum(x, x.flip(-1)).maximum(x.roll(1, 0))", "x.reciprocal().clamp(-2, 2)",
        "torch.special.entr(x.abs())", "x.copysign(x.flip(-1))", "x.xlogy(x.abs() + 1)", "torch.sinc(x)",
        "torch.special.expit(x)", "x.deg2rad()", "F.softplus(x, 2.0)", "F.hardtanh(x, -0.4, 0.6)",
        "F.gelu(x, approximate='tanh')", "F.logsigmoid(x)", "x.neg().relu()",
    ])  # fmt: skip


@entry("typed", "typed_again")
def _typed(r: random.Random, x: Tensor) -> str:
    return "x = " + r.choice([
        "(x * 3).long().float()", "(x > 0).float()", "(x * 3).to(torch.int32).float() / 3",
        "x.double().exp().clamp(max=5).float()", "x.half().float()", "x.bfloat16().float()",
        "((x > 0) & (x < 1)).to(x.dtype)", "(x * 3).int().remainder(4).float()", "((x * 3).long() // 2).float()",
        "(x.argmax(-1, keepdim=True) + x)", "(x.long() ^ 3).float()", "(~(x > 0)).float()",
        "((x * 5).long() << 1).float()", "x.type(torch.float64).type_as(x)", "((x.abs() * 3).byte() / 2)",
        "(x > 0).sum(-1, keepdim=True) * x", "x + torch.tensor(2)", "x + (x > 0)", "x * x.size(0)", "x / x.shape[-1]",
        "x + torch.arange(x.size(-1))",
        "(x.abs() * 4).long().clamp(0, 3).bincount(minlength=5).float() if x.dim() == 1 else x",
        "x.isfinite().float()", "F.one_hot(x.argmax(-1), x.size(-1)).float()",
        "torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])).float()",
    ])  # fmt: skip


@entry("reduced", "reduced_again")
def _reduced(r: random.Random, x: Tensor) -> str:
    d, keep = _dim(r, x), _flag(r)
    two = sorted(r.sample(range(x.dim()), 2))
    return "x = " + r.choice([
        f"x.mean({d}, keepdim={keep})", f"x.sum({two}, keepdim={keep})", f"x.amax({d}, {keep})",
        f"x.max({d}, {keep})[0]", f"x.min({d})[1].float()", f"x.std({d}, unbiased={_flag(r)}, keepdim={keep})",
        f"x.var({two}, correction=0)", f"x.norm(p={r.choice([1, 2, 3])}, dim={d}, keepdim={keep})",
        f"x.logsumexp({d}, {keep})", f"x.prod({d}) * 0.1", f"torch.linalg.vector_norm(x, {r.choice([2, 1, 0])}, {d})",
        f"x.median({d})[0]", f"x.kthvalue(1, {d}, {keep})[0]", f"x.quantile({r.choice([0.5, 0.3])}, {d}, {keep})",
        f"x.argmin({d}, {keep}).float()", f"x.cumsum({d}) / 4", f"x.cumprod({d})", f"x.cummax({d})[0]",
        f"x.logcumsumexp({d})", f"x.softmax({d})", f"F.normalize(x, dim={d}, p=2.0)", f"torch.std_mean(x, {d})[1]",
        f"x.aminmax(dim={d})[1]", f"x.count_nonzero({d}).float()", f"(x > 0).any({d}).float()",
        f"(x > -1).all({d}, {keep}).float()", f"x.nansum({d})", f"torch.diff(x, dim={d})",
        f"x.renorm(2, {abs(d) % x.dim()}, 1.0)", f"torch.trapezoid(x, dim={d})", f"x.std({d})",
        "x.sum().view(1, 1).expand(2, 3)", f"x.mode({d})[0]",
    ])  # fmt: skip


@entry("moved", "moved_again", "moved_more")
def _moved(r: random.Random, x: Tensor) -> str:
    a, b = _dim(r, x), _dim(r, x)
    order = r.sample(range(x.dim()), x.dim())
    new = r.randint(-x.dim() - 1, x.dim())
    low = r.randint(0, x.dim() - 1)
    return "x = " + r.choice([
        f"x.transpose({a}, {b})", f"x.permute({order})", f"x.unsqueeze({new})", f"x.squeeze({a})", "x.squeeze()",
        f"x.flatten({low})", f"x.flatten(0, {low})", "x.reshape(x.size(0), -1)", "x.contiguous().view(-1, x.size(-1))",
        f"x.movedim({a}, {b})", f"x.swapaxes({a}, {b}).contiguous()", f"x.flip({a})",
        f"x.roll({r.randint(-3, 3)}, {a})", "x.rot90(1, [-2, -1])",
        f"x.repeat({[r.randint(1, 2) for _ in range(x.dim())]})", f"x.repeat_interleave(2, {a})",
        "torch.tile(x, (2,))", f"x.unsqueeze({new}).expand({[-1] * (x.dim() + 1)})",
        f"x[None].expand(2, {', '.join(['-1'] * x.dim())})", "x.mT", f"x.unflatten({a}, (1, -1))",
        f"x.tril({r.randint(-1, 1)})", f"x.triu({r.randint(-1, 1)})", "x.diagonal(0, -2, -1)",
        f"torch.diag_embed(x, {r.choice([0, 1])})", f"x.unfold({a}, 2, {r.choice([1, 2])})", "x.ravel()", "x.t()",
        "x.T", "x.reshape([x.shape[0], 1, -1])", "x.view_as(x)", "torch.atleast_3d(x)", "x.clone()",
        "x.reshape_as(x * 1)", "x.fliplr()",
    ])  # fmt: skip


@entry("cut", "cut_again")
def _cut(r: random.Random, x: Tensor) -> str:
    d, i = _dim(r, x), r.randint(-2, 1)
    comma = (
        "x[" + ", ".join(r.choice([":", ":", "1:", ":-1", "::2", "0", "-1", "None, :"]) for _ in range(x.dim())) + "]"
    )
    return r.choice([
        f"x = {comma}", f"x = {comma}", f"x = x[..., {r.choice(['0', '1:', ':2', '::3', '-1:'])}]",
        f"x = x.narrow({d}, 0, 2)", f"x = x.select({d}, {i})", f"x = x.chunk(2, {d})[-1]", f"x = x.split(2, {d})[0]",
        f"a, b = x.chunk(2, {d})\nx = a * b", f"x = x.unbind({d})[{i}]", f"x = torch.stack(x.unbind({d}), {d})",
        f"x = torch.cat(x.split(2, {d}), {d})", f"x = x.tensor_split(3, {d})[1]",
        f"x = torch.cat([x, x * 2, x.sin()], {d})", f"x = torch.stack([x, -x], {d})", "x = torch.hstack([x, x])",
        "x = torch.dstack([x, x])", "x = torch.vstack((x, x + 1))", "x = torch.column_stack([x, x])",
        f"x = x.index_select({d}, torch.tensor([1, 0, 0]))", "x = x[:, [0, -1]]", "x = x[torch.tensor([0, 0, -1])]",
        "x = x[..., torch.tensor([[0, 1], [1, 0]])]", "x = x[:, torch.tensor([0, 1]), torch.tensor([1, 0])]",
        f"x = x.gather({d}, x.argsort({d}))", f"x = x.sort({d}, descending={_flag(r)})[0]", f"x = x.topk(2, {d})[0]",
        f"x = x.take_along_dim(x.argsort({d}), {d})", "x = x.msort()",
        f"x = x.masked_fill(x > 0.3, {r.choice(['-1', '0.5'])})", "x = x.take(torch.tensor([0, 2, 1]))",
        "x = x[0:1] + x[-1:]", f"x = x.slice_scatter(x.narrow({d}, 0, 1) * 2, {d}, 0, 1)",
        f"x = x.select_scatter(x.select({d}, 0) + 1, {d}, 1)", f"x = x.scatter({d}, x.argsort({d}), x * 2)",
        f"x = x.scatter_add({d}, x.argsort({d}).clamp(max=1), x)",
        f"x = x.scatter_reduce({d}, x.argsort({d}) // 2, x, '{r.choice(['sum', 'prod', 'mean', 'amax', 'amin'])}', "
        f"include_self={_flag(r)})",
        f"x = x.index_add({d}, torch.tensor([0, 1]), x.narrow({d}, 0, 2), alpha=2)",
        "x = x.index_fill(0, torch.tensor([0]), 2.0)",
        f"x = x.index_copy({d}, torch.tensor([1, 0]), x.narrow({d}, 0, 2))",
        "x = torch.index_put(x, (torch.tensor([0]),), x[:1], True)",
        f"x = x.index_reduce({d}, torch.tensor([0, 1]), x.narrow({d}, 0, 2), "
        f"'{r.choice(['prod', 'mean', 'amax', 'amin'])}')",
    ])  # fmt: skip


@entry("written", "written_again")
def _written(r: random.Random, x: Tensor) -> str:
    d = _dim(r, x)
    return "y = x.clone()\n" + r.choice([
        "y[:, 0] = 1.0", "y[..., -1] = x[..., 0]", "y[x > 0] = -0.5", "y.mul_(x.sin())", "y += x.flip(-1)",
        "y[0].add_(1)", "y[:, 1:] *= 2", f"y.narrow({d}, 0, 1).fill_(0.3)", "y[:1, ::2] -= x[:1, ::2]",
        f"y.select({d}, 0).copy_(x.select({d}, 1))", "y.view(-1)[0] = 4.0", "y.transpose(0, -1)[0].zero_()",
        "y.clamp_(min=0)", "y.masked_fill_(x > 0, 2.0)", "y.t_() if y.dim() == 2 else y",
        f"y.index_add_({d}, torch.tensor([0]), x.narrow({d}, 1, 1))", "y.relu_().sub_(0.5)", "y[[0]] = x[[-1]] * 2",
        "y.neg_()", f"y.scatter_({d}, x.argsort({d}), 1.5)", "z = y[0]\nz += 1\ny[-1] = z",
        "z = y.unsqueeze(0)\nz[0, 0] = 7.0", "y.sigmoid_()", "y.squeeze_()", "y.unsqueeze_(1)",
        "y.diagonal().fill_(1)", "y.copy_(x[..., :1])", "y.add_(x, alpha=0.5).div_(2)", "y.fill_(0.1)",
        "for i in range(2):\n y[:, i] = y[:, i] * float(i)", "y[:, -1:, ...] = x[:, :1, ...]",
        "y.chunk(2, -1)[0].mul_(3)", "y.exp_().log_()",
    ]) + "\nx = y"  # fmt: skip


@entry()
def products(r: random.Random, x: Tensor) -> str:
    return r.choice([
        "x = x @ x.transpose(-1, -2) / x.size(-1)",
        "x = torch.matmul(x, x[..., 0].unsqueeze(-1)) if x.dim() < 2 else x @ x.mT", "x = x @ x[0, 0]",
        "x = torch.einsum('...i,...j->...ij', x, x)", "x = torch.einsum('b...->...', x)",
        "x = torch.bmm(x, x.transpose(1, 2)) / 4", "x = torch.cdist(x, x * 0.5)",
        f"x = torch.cdist(x, x * 0.5, p={r.choice([1.0, 3.0])})", "x = torch.outer(x.flatten()[:5], x.flatten()[:4])",
        "x = torch.tensordot(x, x, dims=([0], [0])) / 5", "x = F.scaled_dot_product_attention(x, x, x)",
        "x = F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.2)", "x = torch.kron(x, torch.eye(2))",
        "x = x.inner(x)", "x = torch.baddbmm(x[:, :, :1], x, x.mT, beta=0.5, alpha=0.2)",
        "x = torch.addmm(x[:1, :1], x, x.t())", "x = F.linear(x, x.flatten(0, -2)[:3])",
        "x = torch.cross(x[..., :3], x[..., :3] + 1, dim=-1)", "x = torch.vander(x.flatten()[:3].clamp(-2, 2), 3)",
        "x = torch.mv(x, x[0])", "x = F.pairwise_distance(x, x.sin())", "x = F.cosine_similarity(x, x.sin(), dim=-1)",
        "x = torch.linalg.norm(x, dim=(-2, -1))", "x = torch.linalg.det(x @ x.mT / 8 + torch.eye(x.size(-2)))",
        "x = torch.linalg.solve(x @ x.mT + 2 * torch.eye(x.size(-2)), x)",
        "x = torch.linalg.inv(x @ x.mT + 2 * torch.eye(x.size(-2)))",
        "x = torch.linalg.cholesky(x @ x.mT + 2 * torch.eye(x.size(-2)))", "x = torch.block_diag(x[0], x[-1])",
        "x = torch.cartesian_prod(x.flatten()[:3], x.flatten()[:2])", "x = F.pdist(x)",
    ])  # fmt: skip


@entry()
def images(r: random.Random, x: Tensor) -> str:
    sides = "x.size(-1) * 2" if x.dim() == 3 else "x.size(-2) + 2, x.size(-1) * 2"
    mode = r.choice(["bilinear", "nearest", "bicubic"])
    padding = r.choice(["zeros", "border", "reflection"])
    theta = "torch.tensor([[0.9, 0.2, 0.1], [-0.1, 1.1, 0.0]]).expand(x.size(0), 2, 3)"
    return r.choice([
        f"x = F.interpolate(x, size=[{sides}], mode='{'linear' if x.dim() == 3 else 'bilinear'}', "
        f"align_corners={_flag(r)})",
        f"x = F.interpolate(x, scale_factor={r.choice([2.0, 0.6])})",
        "x = F.interpolate(x, scale_factor=0.5, mode='area')",
        f"x = F.interpolate(x, size=[5, 4], mode='{r.choice(['bilinear', 'bicubic'])}', antialias=True)",
        "x = F.interpolate(x, scale_factor=1.5, mode='nearest-exact')",
        f"x = F.pad(x, [1, 2, 0, 1], mode='{r.choice(['constant', 'reflect', 'replicate', 'circular'])}')",
        f"x = F.pad(x, [{r.choice([-1, 1])}, 1], value=0.5)", "x = F.pad(x, [0, -x.size(-1) % 4])",
        "x = F.unfold(x, 2, stride=2)",
        f"x = F.grid_sample(x, F.affine_grid({theta}, [x.size(0), 1, 4, 5], align_corners=False), mode='{mode}', "
        f"padding_mode='{padding}', align_corners={_flag(r)})",
        "x = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)", "x = F.max_pool1d(x, 2, ceil_mode=True)",
        "x = F.adaptive_avg_pool2d(x, 1)", "x = F.pixel_shuffle(x, 2)", "x = F.fold(F.unfold(x, 2), x.shape[-2:], 2)",
        "x = F.local_response_norm(x, 3)", "x = F.instance_norm(x)",
        "x = F.conv2d(x, torch.ones(1, x.size(1), 2, 2) / 8, padding='same')",
        "x = F.conv1d(x, torch.ones([x.size(1), 1, 2]), groups=x.size(1))", "x = F.layer_norm(x, x.shape[-1:])",
        "x = F.group_norm(x, 1)", "x = F.rms_norm(x, x.shape[1:])", "x = F.glu(x, -1)", "x = F.mish(x)",
        "w, h = torch.meshgrid(torch.arange(x.size(-1)), torch.arange(x.size(-2)), indexing='xy')\nx = x + (w + h)",
        "n, c, h, w = x.shape\nx = x.view(n, c, h * w).transpose(1, 2).reshape(n, h, w, c)",
        "b, c = x.size(0), x.size(1)\nx = x.view(b, c, -1).mean(-1).view(b, c, 1)",
        "m = x.mean((-2, -1), keepdim=True)\n"
        "x = (x - m) * torch.rsqrt(((x - m) ** 2).mean((-2, -1), keepdim=True) + 1e-5)",
    ])  # fmt: skip


@entry()
def made(r: random.Random, x: Tensor) -> str:
    return r.choice([
        "x = x + torch.zeros_like(x).add(1)", "x = x * x.new_ones([x.size(-1)])",
        "x = torch.full([x.size(0), 3], 0.5) * x.mean()", "x = torch.cat([x, x.new_zeros(x.shape)], -1)",
        "x = x + torch.linspace(0, 1, x.size(-1))", "x = x * torch.eye(x.size(-2), x.size(-1))",
        "m = torch.ones([x.size(-1), x.size(-1)]).tril().bool()\n"
        "x = (x @ x.mT if x.size(-2) == x.size(-1) else x) * 1.0\nx = x[..., :1] * m.float().sum()",
        "p = torch.arange(x.size(-1)).float()\nx = x * torch.exp(-p * (math.log(10.0) / x.size(-1)))",
        "x = torch.ones_like(x).cumsum(-1) - 1 + x", "x = x * torch.hann_window(x.size(-1))",
        "x = x + x.new_full([1], 2.0)", "x = torch.empty_like(x).fill_(0.5) * x", "x = x.masked_select(x > x.mean())",
        "x = x[x > 0]", "x = torch.nonzero(x > 0.5).float()", "x = torch.nonzero(x > 0.5).sum(0).float()",
        "x = x.unique()", "i = x.flatten().argmax()\nx = x + i", "x = torch.fft.fft(x).abs()",
        "x = torch.fft.rfft(x, dim=-1).real",
        "x = torch.fft.irfft(torch.fft.rfft(x, norm='ortho'), n=x.size(-1), norm='ortho')",
        "x = torch.fft.fft2(x).imag",
        "x = torch.view_as_real(torch.complex(x, x.sin()) * torch.complex(x.cos(), x)).sum(-1)",
        "x = torch.polar(x.abs(), x).real", "x = torch.fft.fftshift(x)", "x = torch.histc(x, 5, -1, 1)",
    ])  # fmt: skip


@entry()
def control(r: random.Random, x: Tensor) -> str:
    return r.choice([
        "if x.size(0) > 1:\n x = x * 2\nelse:\n x = x - 1", "for i in range(3):\n x = torch.sin(x) + float(i)",
        "if x.dim() == 4:\n x = x.flatten(2)",
        "y = [x]\nfor i in range(2):\n y.append(y[-1] * 0.5)\nx = torch.cat(y, 0)",
        "for t in x.unbind(0):\n x = x + t * 0.1",
        "x = torch.stack([t * float(i) for i, t in enumerate(x.unbind(1))], 1)",
        "n = 0\nwhile n < 3:\n x = x * 0.9\n n += 1", "a, b = (x, x + 1) if x.size(-1) > 3 else (x - 1, x)\nx = a * b",
        "d = {'a': x, 'b': x.sin()}\nx = d['a'] + d['b']", "assert x.dim() > 1\nx = x.cos()",
    ])  # fmt: skip
