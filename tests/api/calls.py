"""Random calls of every function of PyMNN's API that is here, as expressions on the variables of :func:`setup`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = {"c": (), "v": (3,), "m": (2, 3), "t": (2, 3, 2), "q": (1, 2, 3, 2), "o": (1, 3), "p": (3, 1), "r": (2, 1, 3)}
KINDS = {"f": ("float32", "F.float"), "i": ("int32", "F.int"), "u": ("uint8", "F.uint8")}


def numbers(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> list[Any]:
    count = int(np.prod(shape))
    if kind == "f":
        return [float(x) for x in rng.integers(-12, 13, count) / 4]
    return [int(x) for x in (rng.integers(-4, 6, count) if kind == "i" else rng.integers(0, 256, count))]


def setup(seed: int) -> list[str]:
    """Statements that make a variable of every element type and shape: ``fm``, ``iq``, ..., and pictures in the three
    layouts: ``fq_nhwc``, ``fq_nc4``."""
    rng = np.random.default_rng(seed)
    lines = ["import MNN"]
    for kind, (numpy, ours) in KINDS.items():
        for letter, shape in SHAPES.items():
            array = f"onp.array({numbers(kind, shape, rng)},onp.{numpy}).reshape({shape})"
            if not shape:
                lines.append(f"{kind}{letter}=F.cast(F.scalar({numbers(kind, shape, rng)[0]}),{ours})")
            else:
                lines.append(f"{kind}{letter}=F.const({array},{list(shape)},F.NCHW,{ours})")
        lines.append(f"{kind}q_nhwc=F.convert({kind}q,F.NHWC)")
    lines.append("fq_nc4=F.convert(fq,F.NC4HW4)")
    return lines


class Maker:
    """Random operands as expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def any(self, kinds: str = "fiu", shapes: str = "cvmtqopr", layouts: bool = True) -> str:
        kind, shape = self.random.choice(kinds), self.random.choice(shapes)
        tail = self.random.choice(["", "", "_nhwc"]) if shape == "q" and layouts else ""
        return kind + shape + tail

    def rank(self, v: str) -> int:
        return len(SHAPES[v[1]])

    def axis(self, v: str) -> int:
        rank = max(self.rank(v), 1)
        return self.random.randrange(-rank, rank)

    def axes(self, v: str) -> str:
        rank = self.rank(v)
        chosen = self.random.sample(range(rank), self.random.randint(1, rank)) if rank else []
        return str([a - self.random.choice([0, rank]) for a in chosen])

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)


Call = Callable[[Maker], str]
UNARY = "abs negative square sign floor ceil round sqrt exp expm1 log log1p sin cos tan sinh cosh tanh reciprocal"
F_UNARY = f"{UNARY} asin acos atan asinh acosh atanh rsqrt sigmoid erf erfc erfinv gelu relu softplus softsign".split()
N_UNARY = (
    f"{UNARY} arcsin arccos arctan arcsinh arccosh arctanh absolute fabs exp2 log2 log10 cbrt trunc fix deg2rad "
    "rad2deg degrees radians signbit positive rint around round_ ravel transpose flip flipud nonzero argwhere "
    "flatnonzero shape zeros_like ones_like atleast_1d atleast_2d atleast_3d copy asarray array squeeze"
).split()
F_BINARY = (
    "add subtract multiply divide floordiv floormod mod pow minimum maximum atan2 squared_difference equal "
    "not_equal greater greater_equal less less_equal logical_or bitwise_and bitwise_or bitwise_xor bias_add"
).split()
N_BINARY = (
    "add subtract multiply divide floor_divide fmod mod remainder power minimum maximum fmax fmin arctan2 hypot equal "
    "not_equal greater greater_equal less less_equal bitwise_and bitwise_or bitwise_xor true_divide copysign"
).split()
REDUCE = "sum prod max min mean var std amax amin".split()
F_REDUCE = "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_any reduce_all".split()


def calls() -> dict[str, Call]:
    """A maker of calls for every function."""
    made: dict[str, Call] = {}
    for name in F_UNARY:
        made[f"F.{name}"] = lambda m, n=name: f"F.{n}({m.any()})"
    for name in N_UNARY:
        made[f"np.{name}"] = lambda m, n=name: f"np.{n}({m.any()})"
    for name in F_BINARY:
        made[f"F.{name}"] = lambda m, n=name: f"F.{n}({m.any()},{m.pick(m.any(), m.any(), '2', '1.5', '-1')})"
    for name in N_BINARY:
        made[f"np.{name}"] = lambda m, n=name: f"np.{n}({m.any()},{m.pick(m.any(), m.any(), '2', '1.5', '-1')})"
    for sign in "+ - * / // % ** == != < <= > >=".split():
        made[f"Var {sign}"] = lambda m, s=sign: m.pick(
            f"{m.any()} {s} {m.any()}", f"{m.any()} {s} {m.pick(2, 0.5, -3)}", f"{m.pick(2, 0.5)} {s} {m.any()}"
        )
    for name in REDUCE:
        made[f"np.{name}"] = lambda m, n=name: _reduce(m, "np." + n, False)
        if not name.startswith("a"):
            made[f"Var.{name}"] = lambda m, n=name: _reduce(m, n, True)
    for name in F_REDUCE:
        made[f"F.{name}"] = lambda m, n=name: _reduce(m, "F." + n, False)
    made.update(OTHERS)
    return made


def _reduce(m: Maker, name: str, method: bool) -> str:
    v = m.any()
    rest = m.pick("", f",{m.axis(v)}", f",axis={m.axis(v)},keepdims=True", ",keepdims=True", f",{m.axes(v)}")
    if name.startswith("np.") or method:
        rest = rest.replace("[", "(").replace("]", ",)").replace("(,)", "0") if m.pick(True, False) else rest
    return f"{v}.{name}({rest.lstrip(',')})" if method else f"{name}({v}{rest})"


def _with_axis(name: str, kinds: str = "fiu", shapes: str = "vmtqopr", method: bool = False) -> Call:
    def make(m: Maker) -> str:
        v = m.any(kinds, shapes)
        rest = m.pick("", str(m.axis(v)))
        return f"{v}.{name}({rest})" if method else f"{name}({v}{',' if rest else ''}{rest})"

    return make


def _needs_axis(name: str, kinds: str = "fiu", shapes: str = "vmtqopr") -> Call:
    def make(m: Maker) -> str:
        v = m.any(kinds, shapes)
        return f"{name}({v},{m.axis(v)})"

    return make


def _perm(m: Maker, name: str) -> str:
    v = m.any(shapes="mtq")
    order = list(range(m.rank(v)))
    m.random.shuffle(order)
    return f"{name.replace('V', v)}{order})"


def _pads(m: Maker, v: str) -> list[list[int]]:
    return [[m.pick(0, 1, 2), m.pick(0, 1)] for _ in range(m.rank(v))]


def _pad(m: Maker) -> str:
    v = m.any(shapes="vmtq")
    return f"F.pad({v},{_pads(m, v)},F.PadValue_Mode.{m.pick('CONSTANT', 'CONSTANT', 'REFLECT', 'SYMMETRIC')})"


def _np_pad(m: Maker) -> str:
    v = m.any(shapes="vmtq")
    return f"np.pad({v},{_pads(m, v)}{m.pick('', ',' + repr(m.pick('constant', 'reflect', 'symmetric')))})"


def _slice(m: Maker) -> str:
    v = m.any(shapes="vmtq")
    sizes = SHAPES[v[1]]
    if v.endswith("nhwc"):
        sizes = (1, 3, 2, 2)
    starts = [m.random.randrange(s) for s in sizes]
    lengths = [m.random.randint(1, s - a) for s, a in zip(sizes, starts, strict=True)]
    return f"F.slice({v},{starts},{lengths})"


def _index(m: Maker) -> str:
    v = m.any(shapes="vmtq", layouts=False)
    parts = [m.pick("0", "-1", ":", "1:", ":-1", "::-1", "0:1", "::2", "None", "...") for _ in range(m.rank(v))]
    if parts.count("...") > 1:
        parts = [":" if p == "..." else p for p in parts]
    if SHAPES[v[1]][0] == 1 and parts[0] == "1:":
        parts[0] = ":"
    return f"{v}[{','.join(parts[: m.random.randint(1, len(parts))])}]"


def _join(name: str, axis: bool) -> Call:
    def make(m: Maker) -> str:
        v = m.any(shapes="vmtqop")
        return f"{name}([{v},{v}]{',' + str(m.axis(v)) if axis else ''})"

    return make


def _reshape(m: Maker, name: str) -> str:
    v = m.any(shapes="mtq")
    count = int(np.prod(SHAPES[v[1]]))
    return f"{name.replace('V', v)}{m.pick([-1], [count], [2, -1], [1, -1, 3], [-1, 1], [3, count // 3])})"


def _axis_pair(m: Maker, name: str) -> str:
    v = m.any(shapes="mtq")
    return f"{name.replace('V', v)}{m.axis(v)},{m.axis(v)})"


def _convolution(m: Maker, name: str, kernel: list[int]) -> str:
    shape = [m.pick(1, 2), 2, *kernel]
    if name == "conv2d_transpose":
        shape[:2] = shape[1::-1]
    weights = [m.pick(-1.0, 0.5, 2.0) for _ in range(int(np.prod(shape)))]
    out = shape[1 if name == "conv2d_transpose" else 0]
    image = "F.convert(F.const([x/4 for x in range(-20,40)],[1,2,5,6]),F.NC4HW4)"
    rest = f"({m.pick(1, 2)},{m.pick(1, 2)}),({m.pick(0, 1)},{m.pick(0, 1)}),(1,{m.pick(1, 2)}),1"
    mode = m.pick("VALID", "CAFFE", "SAME")
    return (
        f"F.convert(F.{name}({image},F.const({weights},{shape}),F.const({[1.5, -1.0][:out]},[{out}]),{rest},"
        f"F.Padding_Mode.{mode}),F.NCHW)"
    )


def _tensor(m: Maker) -> str:
    kind = m.pick("Float", "Int", "Uint8")
    kinds = {"Float": "float32", "Int": "int32", "Uint8": "uint8"}
    array = f"onp.array([3,1,2,7,5,6],onp.{kinds[kind]}).reshape(1,2,3,1)"
    order = m.pick("Tensorflow", "Caffe")
    made = f"MNN.Tensor((1,2,3,1),MNN.Halide_Type_{kind},{array},MNN.Tensor_DimensionType_{order})"
    what = m.pick(
        "getShape()", "getData()", "getDimensionType()", "getNumpyData()", "getDataType()==MNN.Halide_Type_Int"
    )
    return f"{made}.{what}"


def _sorted(m: Maker) -> str:
    v = m.any(shapes="vmt")
    return f"F.sort({v},{m.axis(v)}{m.pick('', ',True', ',False,True', ',True,True')})"


OTHERS: dict[str, Call] = {
    "F.argmax": _with_axis("F.argmax"), "F.argmin": _with_axis("F.argmin"), "np.argmax": _with_axis("np.argmax"),
    "np.argmin": _with_axis("np.argmin"), "Var.argmax": _with_axis("argmax", method=True),
    "Var.argmin": _with_axis("argmin", method=True), "F.cumsum": _with_axis("F.cumsum"),
    "F.cumprod": _with_axis("F.cumprod"), "np.cumsum": _with_axis("np.cumsum"), "np.cumprod": _with_axis("np.cumprod"),
    "F.softmax": _with_axis("F.softmax", "f"), "np.sort": _with_axis("np.sort"), "np.argsort": _with_axis("np.argsort"),
    "Var.sort": _with_axis("sort", method=True), "Var.argsort": _with_axis("argsort", method=True), "F.sort": _sorted,
    "np.ptp": _with_axis("np.ptp"), "Var.ptp": _with_axis("ptp", method=True),
    "np.all": _with_axis("np.all"), "np.any": _with_axis("np.any"), "Var.all": _with_axis("all", method=True),
    "Var.any": _with_axis("any", method=True), "np.average": _with_axis("np.average"),
    "np.count_nonzero": _with_axis("np.count_nonzero"), "np.linalg.norm": _with_axis("np.linalg.norm"),
    "F.unstack": _needs_axis("F.unstack"), "F.expand_dims": _needs_axis("F.expand_dims"),
    "F.unsqueeze": lambda m: f"F.unsqueeze({m.any(shapes='vmt')},[{m.pick(0, 1, -1)}])",
    "np.expand_dims": _needs_axis("np.expand_dims"), "F.reverse": lambda m: (
        lambda v: f"F.reverse({v},F.const([{m.axis(v)}],[1],F.NCHW,F.int))")(m.any(shapes="vmtq")),
    "np.fliplr": lambda m: f"np.fliplr({m.any(shapes='mt')})",
    "np.empty": lambda m: f"np.empty({m.pick((2, 3), [3])}{m.pick('', ',np.int32')}).shape",
    "np.empty_like": lambda m: f"np.empty_like({m.any()}).shape", "np.flip": _with_axis("np.flip"),
    "F.squeeze": lambda m: f"F.squeeze({m.any(shapes='opqrm')}{m.pick('', ',[0]')})",
    "np.squeeze": lambda m: f"np.squeeze({m.any(shapes='oqm')}{m.pick('', ',0')})",
    "Var.squeeze": lambda m: f"{m.any(shapes='oqm')}.squeeze({m.pick('', '0')})",
    "F.transpose": lambda m: _perm(m, "F.transpose(V,"), "np.transpose": lambda m: _perm(m, "np.transpose(V,"),
    "Var.transpose": lambda m: _perm(m, "V.transpose("), "F.pad": _pad, "np.pad": _np_pad, "F.slice": _slice,
    "Var[]": _index, "F.concat": _join("F.concat", True), "F.stack": _join("F.stack", True),
    "np.concatenate": _join("np.concatenate", True), "np.stack": _join("np.stack", True),
    "np.vstack": _join("np.vstack", False), "np.hstack": _join("np.hstack", False),
    "np.dstack": _join("np.dstack", False), "np.column_stack": _join("np.column_stack", False),
    "F.reshape": lambda m: _reshape(m, "F.reshape(V,"), "np.reshape": lambda m: _reshape(m, "np.reshape(V,"),
    "Var.reshape": lambda m: _reshape(m, "V.reshape("), "np.swapaxes": lambda m: _axis_pair(m, "np.swapaxes(V,"),
    "Var.swapaxes": lambda m: _axis_pair(m, "V.swapaxes("), "np.moveaxis": lambda m: _axis_pair(m, "np.moveaxis(V,"),
    "F.cast": lambda m: f"F.cast({m.any()},F.{m.pick('float', 'int', 'uint8')})",
    "Var.astype": lambda m: f"{m.any()}.astype(F.{m.pick('float', 'int')})",
    "F.split": lambda m: (lambda v: f"F.split({v},{m.pick([1, 2], [2, 1], 3)},{1 if v[1] == 'm' else 0})")(
        m.any(shapes="vm")),
    "np.split": lambda m: f"np.split({m.any(shapes='m')},{m.pick([1], [1, 2], 3)},1)",
    "np.array_split": lambda m: f"np.array_split({m.any(shapes='mv')},{m.pick(2, 3)})",
    "np.hsplit": lambda m: f"np.hsplit({m.any(shapes='m')},{m.pick(3, [1])})",
    "np.vsplit": lambda m: f"np.vsplit({m.any(shapes='m')},{m.pick(2, [1])})",
    "np.dsplit": lambda m: f"np.dsplit({m.any(shapes='t')},{m.pick(2, [1])})",
    "F.tile": lambda m: f"F.tile({m.any(shapes='m')},F.const({m.pick([1, 2], [2, 3])},[2],F.NCHW,F.int))",
    "np.tile": lambda m: f"np.tile({m.any(shapes='vm')},{m.pick((2, 1), (2, 3))})",
    "np.repeat": lambda m: f"np.repeat({m.any(shapes='vmt')},{m.pick(1, 2, 3)})",
    "Var.repeat": lambda m: f"{m.any(shapes='vmt')}.repeat({m.pick(1, 2)})",
    "np.roll": lambda m: (lambda v: f"np.roll({v},{m.pick(0, 1, -1, 5)}{m.pick('', ',' + str(m.axis(v)))})")(
        m.any(shapes="vmt")),
    "F.broadcast_to": lambda m: f"F.broadcast_to({m.any(shapes='ov')},F.const([2,3],[2],F.NCHW,F.int))",
    "np.broadcast_to": lambda m: f"np.broadcast_to({m.any(shapes='ov')},(2,3))",
    "F.gather": lambda m: f"F.gather({m.any(shapes='mvt')},F.const({m.pick([0, 1], [1, 1])},[2],F.NCHW,F.int))",
    "F.gather_nd": lambda m: f"F.gather_nd({m.any(shapes='mt')},F.const([[0,1],[1,2]],[2,2],F.NCHW,F.int))",
    "F.scatter_nd": lambda m: (
        f"F.scatter_nd(F.const([[0],[{m.pick(0, 2)}],[3]],[3,1],F.NCHW,F.int),{m.pick('fv', 'iv')},"
        "F.const([4],[1],F.NCHW,F.int))"),
    "F.where": lambda m: f"F.where({m.any(shapes='vmt')})", "np.where": lambda m: (
        f"np.where({m.any(shapes='m')}>0,{m.any(shapes='moc')},{m.any(shapes='moc')})"),
    "F.select": lambda m: f"F.select({m.any('i', 'm')},{m.any(shapes='m')},{m.any(shapes='m')})",
    "F.one_hot": lambda m: f"F.one_hot(F.const([0,2,1],[3],F.NCHW,F.int),"
                           f"{m.pick(3, 4)}{m.pick('', ',2.0,-1.0', ',5,1')})",
    "F.matrix_band_part": lambda m: f"F.matrix_band_part({m.any('f', 'mt')},{m.pick(0, 1, -1)},{m.pick(0, 1, -1)})",
    "F.shape": lambda m: f"F.shape({m.any()})", "F.rank": lambda m: f"F.rank({m.any()})",
    "F.size": lambda m: f"F.size({m.any()})", "F.zeros_like": lambda m: f"F.zeros_like({m.any()})",
    "F.clone": lambda m: f"F.clone({m.any()}{m.pick('', ',True')})",
    "F.fill": lambda m: f"F.fill(F.const({m.pick([2], [2, 3], [1])},[{m.pick(1)}],F.NCHW,F.int),{m.pick('ic', 'fc')})",
    "F.range": lambda m: f"F.range({m.pick(0, 1, -2)},{m.pick(5, 7)},{m.pick(1, 2)})",
    "F.scalar": lambda m: f"F.scalar({m.pick(1, -2, 2.5, 0.0)})",
    "F.unravel_index": lambda m: "F.unravel_index(F.const([0,3,5],[3],F.NCHW,F.int),F.const([2,3],[2],F.NCHW,F.int))",
    "F.elu": lambda m: f"F.elu({m.any('f')},{m.pick(1.0, 0.5)})", "F.relu": lambda m: (
        f"F.relu({m.any('f')}{m.pick('', ',0.1')})"),
    "F.relu6": lambda m: f"F.relu6({m.any('f')}{m.pick('', ',-1.0,2.0')})",
    "F.selu": lambda m: f"F.selu({m.any('f')},1.05,1.67)",
    "F.matmul": lambda m: m.pick("F.matmul({0}m,{0}m,False,True)", "F.matmul({0}m,{0}p)", "F.matmul({0}m,{0}m,True)",
                                 "F.matmul({0}t,{0}t,True)").format(m.pick(*"fi")),
    "np.matmul": lambda m: f"np.matmul({m.any(shapes='m')},{m.any(shapes='pv')})",
    "np.dot": lambda m: f"np.dot({m.any(shapes='mv')},{m.any(shapes='v')})",
    "np.inner": lambda m: f"np.inner({m.any(shapes='mv')},{m.any(shapes='v')})",
    "np.vdot": lambda m: f"np.vdot({m.any(shapes='v')},{m.any(shapes='v')})",
    "Var.dot": lambda m: f"{m.any(shapes='mv')}.dot({m.any(shapes='v')})",
    "F.moments": lambda m: "F.moments(fq,[2,3],None,True)",
    "F.setdiff1d": lambda m: f"F.setdiff1d({m.any('i', 'v')},F.const([{m.pick(0, 1, -1)}],[1],F.NCHW,F.int))",
    "F.eltwise_sum": lambda m: (lambda v: f"F.eltwise_{m.pick('sum', 'prod', 'max', 'sub')}({v},{v},[])")(
        m.any("f", "mtq")),
    "F.convert": lambda m: f"F.convert({m.any(shapes='mtq')},F.{m.pick('NCHW', 'NHWC')})",
    "F.depth_to_space": lambda m: "F.depth_to_space(F.const(list(range(16)),[1,2,2,4],F.NHWC),2)",
    "F.space_to_depth": lambda m: "F.space_to_depth(F.const(list(range(16)),[1,4,4,1],F.NHWC),2)",
    "F.max_pool": lambda m: f"F.convert(F.{m.pick('max', 'avg')}_pool(fq_nc4,[{m.pick(1, 2)},2],[1,{m.pick(1, 2)}],"
                            f"F.Padding_Mode.{m.pick('VALID', 'SAME', 'CAFFE')}),F.NCHW)",
    "F.conv2d": lambda m: _convolution(m, "conv2d", [m.pick(2, 3), 2]),
    "F.conv2d_transpose": lambda m: _convolution(m, "conv2d_transpose", [2, m.pick(2, 3)]),
    "F.prelu": lambda m: f"F.convert(F.prelu(fq_nc4,[{m.pick(0.5, 0.1)},0.25]),F.NCHW)",
    "F.scale": lambda m: f"F.convert(F.scale(fq_nc4,2,[{m.pick(0.5, 2.0)},0.25],[1.0,{m.pick(0.0, -1.5)}]),F.NCHW)",
    "F.resize": lambda m: f"F.convert(F.resize(fq_nc4,{m.pick(1.0, 2.0)},{m.pick(2.0, 3.0, 0.5)}),F.NCHW)",
    "F.channel_shuffle": lambda m: f"F.convert(F.channel_shuffle(F.convert({m.pick('fq', 'F.concat([fq,fq],1)')},"
                                   "F.NC4HW4),2),F.NCHW)",
    "F.strided_slice": lambda m: f"F.strided_slice({m.any(shapes='m')},[{m.pick(0, 1, -2)},{m.pick(0, 1)}],"
                                 f"[{m.pick(2, -1)},{m.pick(3, 2)}],[1,{m.pick(1, 2)}],{m.pick(0, 1, 2)},"
                                 f"{m.pick(0, 1, 2, 3)},0,0,{m.pick(0, 1)})",
    "F.reverse_sequence": lambda m: f"F.reverse_sequence({m.any('fi', 't')},F.const([{m.pick(1, 2, 3)},2],[2],F.NCHW,"
                                    "F.int),0,1)",
    "F.nms": lambda m: "F.nms(F.const([0.,0.,1.,1.,0.,0.1,1.,1.1,0.,10.,1.,11.],[3,4]),"
                       f"F.const([0.5,{m.pick(0.25, 0.75)},0.3],[3]),"
                       f"{m.pick(1, 3)},{m.pick(0.5, 0.9)},{m.pick(0.0, 0.4)})",
    "F.bias_add.nc": lambda m: "F.bias_add(F.convert(fq,F.NHWC),F.const([1.,2.],[2]))",
    "Tensor": lambda m: _tensor(m),
    "Var.set_order": lambda m: f"(lambda v:(v.set_order(F.{m.pick('NHWC', 'NCHW')}),v)[1])(F.clone({m.any()},True))",
    "Var.reorder": lambda m: f"(lambda v:(v.reorder(F.{m.pick('NHWC', 'NCHW')}),v)[1])"
                             f"(F.clone(fq{m.pick('', '_nhwc')},True))",
    "Var.fill": lambda m: f"(lambda v:(v.fill({m.pick(2, 7)}),v)[1])(F.clone({m.any()},True))",
    "Var.write": lambda m: f"(lambda v:(v.write({m.pick([1.0, 2.0, 3.0], (4.0, 5.0, 6.0))}),v*2)[1])"
                           "(F.placeholder([3]))",
    "Var.resize": lambda m: f"(lambda v:(v.resize([{m.pick(2, 4)},2]),(v+1).shape)[1])(F.placeholder([3]))",
    "np.clip": lambda m: f"np.clip({m.any()},{m.pick(-1, 0, 0.5)},{m.pick(1, 2, 2.5)})",
    "Var.clip": lambda m: f"{m.any()}.clip({m.pick(-1, 0, 0.5)},{m.pick(1, 2, 2.5)})",
    "Var.round": lambda m: f"{m.any('f')}.round({m.pick('', '0', '1')})",
    "Var.item": lambda m: f"{m.any(shapes='vm')}.item({m.pick(0, 1, 2)})",
    "Var.ravel": lambda m: f"{m.any()}.{m.pick('ravel', 'flatten', 'copy')}()",
    "Var.nonzero": lambda m: f"{m.any()}.nonzero()",
    "Var.what": lambda m: f"{m.any()}.{m.pick('ndim', 'size', 'shape', 'dtype', 'data_format', 'op_type', 'valid')}",
    "Var.read_as_tuple": lambda m: f"{m.any()}.read_as_tuple()",
    "np.full": lambda m: f"np.full({m.pick((2, 3), 2, [3])},{m.pick(1, 2.5)}{m.pick('', ',np.float32', ',np.int32')})",
    "np.zeros": lambda m: f"np.{m.pick('zeros', 'ones')}({m.pick((2, 3), 2, [3])}"
                          f"{m.pick('', ',np.float32', ',np.uint8')})",
    "np.full_like": lambda m: f"np.full_like({m.any()},{m.pick(1, 2.5)})",
    "np.eye": lambda m: f"np.eye({m.pick(2, 3)}{m.pick('', ',4', ',2,1', ',3,-1')})",
    "np.identity": lambda m: "np.identity(3)", "np.arange": lambda m: f"np.arange({m.pick('5', '2,7', '1,8,3', '3.')})",
    "np.linspace": lambda m: f"np.linspace({m.pick('0,1', '2,3,5', '0.,1.,4,False')})",
    "np.array": lambda m: f"np.array({m.pick('[1,2]', '[[1.,2.]]', '3', '[True,False]', '(1,2.5)')}"
                          f"{m.pick('', ',np.float32', ',np.int32')})",
    "np.outer": lambda m: f"np.outer({m.any(shapes='vm')},{m.any(shapes='v')})",
    "np.array_equal": lambda m: f"np.array_equal({m.any(shapes='vm')},{m.any(shapes='vm')})",
}  # fmt: skip
"""What is not one of the families above."""
