"""Texts of random programs in TorchScript's part of Python, for :mod:`tests.frontends.torch.random_programs`.

Every tensor is f32 of the shape [3, 4], so that any expression fits any other; numbers stay small.
"""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST = {
    "Tensor": ["x", "y"], "int": ["n"], "float": ["f"], "bool": ["flag"], "List[Tensor]": ["ts"], "List[int]": ["ks"],
    "Dict[str, Tensor]": ["d"], "Optional[Tensor]": ["o"],
}  # fmt: skip
HEAD = """\
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn


def helper(a: Tensor, k: int) -> Tensor:
    if k > 2:
        return a * 0.5
    for i in range(k):
        if i == 1:
            return a + 1.0
    return a - 1.0


def split(a: Tensor, b: Tensor) -> Tuple[Tensor, int]:
    return torch.minimum(a, b), a.size(1)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = 0.25

    def forward(self, a: Tensor, twice: bool = False) -> Tensor:
        y = self.linear(a)
        if twice:
            y = self.linear(y) * self.scale
        return torch.tanh(y)


class Program(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()
        self.parts = nn.ModuleList([Part(), Part()])
        self.count = 3
        self.kept: List[Tensor] = [torch.zeros(3, 4)]

    def forward(self, x: Tensor, y: Tensor) -> List[Tensor]:
        n = 2
        f = 0.5
        flag = True
        ts: List[Tensor] = [x, y]
        ks: List[int] = [1, 2, 3]
        d: Dict[str, Tensor] = {"a": x, "b": y}
        o: Optional[Tensor] = None
        alias = [y, x]
        nested: List[List[Tensor]] = [alias, [x, x]]
        self.kept[0] = x
"""
TAIL = """\
        if o is not None:
            ts.append(o)
        for t in d.values():
            ts.append(t)
        ts.extend(nested[0] + nested[1] + self.kept)
        return ts + [x, y, torch.full([1], float(n) + f + float(len(ks)) + float(sum(ks)) + (1.0 if flag else 0.0))]
"""


class Writer:
    """Writes statements; ``known`` are the names of each kind that are in reach."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.known = {kind: list(names) for kind, names in FIRST.items()}
        self.made = 0
        self.depth = 2

    def text(self) -> str:
        for _ in range(self.r.randint(4, 12)):
            self.statement()
        return HEAD + "\n".join(self.lines) + "\n" + TAIL

    # -- expressions ------------------------------------------------------------------------------------------------

    def name(self, kind: str) -> str:
        return self.r.choice(self.known[kind])

    def tensor(self, deep: int = 2) -> str:
        r = self.r
        if deep == 0 or r.random() < 0.25:
            return self.name("Tensor")
        inner: Callable[[], str] = lambda: self.tensor(deep - 1)  # noqa: E731
        choices: list[Callable[[], str]] = [
            lambda: f"torch.{r.choice(['tanh', 'sigmoid', 'relu', 'sin', 'abs', 'neg'])}({inner()})",
            lambda: f"({inner()} {r.choice('+-*')} {inner()})",
            lambda: f"({inner()} * {self.number()})",
            lambda: f"torch.where({inner()} > {self.number()}, {inner()}, {inner()})",
            lambda: f"helper({inner()}, {self.integer()})",
            lambda: f"self.part({inner()}, {self.truth(False)})",
            lambda: f"{inner()}.{r.choice(['sum', 'mean', 'amax'])}({r.choice(['0', '1', '-1'])}, True).expand(3, 4)",
            lambda: f"{inner()}.t().reshape(3, 4)",
            lambda: f"torch.cat([{inner()}[:1], {inner()}[1:]], 0)",
            lambda: self.stacked(inner),
            lambda: f"ts[{r.choice(['0', '-1', 'n % len(ts)'])}]",
            lambda: f"(d['{r.choice('ab')}'] if '{r.choice('abc')}' in d else {inner()})",
            lambda: f"split({inner()}, {inner()})[0]",
            lambda: f"nested[{r.choice('01')}][{r.choice('01')}]",
            lambda: "self.kept[0]",
            lambda: f"torch.roll({inner()}, {self.integer()}, 1)",
            lambda: f"({inner()} + torch.arange(4) * {self.number()})",
            lambda: f"{inner()}.clamp({r.choice(['-1.0', 'None'])}, 1.5)",
            lambda: self.unbound(inner),
            lambda: f"{inner()}[:, [3, 1, 0, 2]]",
            lambda: f"torch.cumsum({inner()}, {r.choice('01')}) * 0.1",
        ]
        return r.choice(choices)()

    def stacked(self, inner: Callable[[], str]) -> str:
        """Two put together along an axis, and reduced along it."""
        axis = self.r.choice("012")
        return f"torch.stack([{inner()}, {inner()}], {axis}).{self.r.choice(['amax', 'mean'])}({axis})"

    def unbound(self, inner: Callable[[], str]) -> str:
        """Taken apart along an axis, and put together again."""
        axis = self.r.choice("01")
        return f"torch.stack({inner()}.unbind({axis}), {axis})"

    def integer(self) -> str:
        r = self.r
        return r.choice(
            [
                str(r.randint(0, 4)), self.name("int"), "len(ts)", f"{self.name('Tensor')}.size({r.choice('01')})",
                f"({self.name('int')} + {r.randint(1, 3)}) % 5", f"max({self.name('int')}, {r.randint(0, 3)})",
                f"ks[{r.choice(['0', '-1'])}]", "self.count", f"{self.name('int')} // 2", "sum(ks) % 4",
                f"int({self.name('float')} * 2.0)", "len(d)",
            ]
        )  # fmt: skip

    def number(self) -> str:
        r = self.r
        return r.choice(
            [f"{r.uniform(-2, 2):.2f}", self.name("float"), f"float({self.integer()})", f"{self.name('float')} / 2"]
        )

    def truth(self, data: bool = True) -> str:
        r = self.r
        plain = [
            self.name("bool"), f"{self.integer()} > {self.integer()}", f"not {self.name('bool')}",
            f"{self.name('int')} % 2 == 0", f"'{r.choice('abc')}' in d", f"{self.name('Optional[Tensor]')} is None",
            f"{self.integer()} in ks", f"{self.name('bool')} and {self.name('int')} < 3",
        ]  # fmt: skip
        if data and r.random() < 0.4:
            return f"bool({self.name('Tensor')}.{r.choice(['sum', 'mean', 'max'])}() > {r.uniform(-1, 1):.2f})"
        return r.choice(plain)

    # -- statements -------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, kind: str, text: str) -> None:
        """A new name, or one that is there already."""
        own = [n for n in self.known[kind] if n[0] == "v" or n in ("x", "y", "n", "f", "flag")]  # no loop's counter
        if own and self.r.random() < 0.5:
            self.line(f"{self.r.choice(own)} = {text}")
            return
        self.made += 1
        name = f"v{self.made}"
        self.line(f"{name} = {text}")
        self.known[kind].append(name)

    def statement(self) -> None:
        r = self.r
        simple: list[Callable[[], None]] = [
            lambda: self.fresh("Tensor", self.tensor()),
            lambda: self.fresh("Tensor", self.tensor(3)),
            lambda: self.fresh("int", self.integer()),
            lambda: self.fresh("float", self.number()),
            lambda: self.fresh("bool", self.truth(False)),
            lambda: self.line(f"ts.append({self.tensor()})"),
            lambda: self.line(f"ts = [t * {self.number()} for t in ts]"),
            lambda: self.line(f"ks.append({self.integer()})"),
            lambda: self.line("ks = ks[::-1]" if r.random() < 0.5 else "ks = sorted(ks)"),
            lambda: self.line(f"ts.insert(0, {self.tensor()})"),
            lambda: self.line(
                "if len(ts) > 2:\n" + "    " * (self.depth + 1) + f"x = x + ts.pop({r.choice(['', '0'])})"
            ),
            lambda: self.line(f"ts.extend([{self.tensor(1)}, {self.tensor(1)}])"),
            lambda: self.line(f"ts[{r.choice(['0', '-1'])}] = {self.tensor()}"),
            lambda: self.line(f"d['{r.choice('abc')}'] = {self.tensor()}"),
            lambda: self.line(f"d['{r.choice('ab')}'] = {self.tensor()}"),
            lambda: self.line(f"nested[{r.choice('01')}][{r.choice('01')}] = {self.tensor()}"),
            lambda: self.line(f"alias[{r.choice('01')}] = {self.tensor()}"),
            lambda: self.line(f"ks[{r.choice(['0', '-1'])}] = {self.integer()}"),
            lambda: self.line(f"self.kept[0] = {self.tensor()}"),
            lambda: self.line(f"o = {r.choice(['None', self.tensor(1)])}"),
            lambda: self.fresh("Tensor", f"o if o is not None else {self.tensor(1)}"),
            self.in_place,
            lambda: self.line(f"{r.choice(['x', 'y'])}, n = split({self.tensor(1)}, {self.tensor(1)})"),
        ]
        blocks: list[Callable[[], None]] = [self.branch, self.counted, self.over_list, self.turning, self.over_parts]
        if self.depth < 5 and r.random() < 0.35:
            r.choice(blocks)()
        else:
            r.choice(simple)()

    def in_place(self) -> None:
        """Of a tensor of its own, as inputs are not written to."""
        self.made += 1
        name, r = f"v{self.made}", self.r
        self.line(f"{name} = {self.tensor(1)}.clone()")
        for _ in range(r.randint(1, 2)):
            place = r.choice(["[0]", "[:, 1]", "[1:, ::2]", "", "[..., -1]"])
            if r.random() < 0.5:
                self.line(f"{name}{place} {r.choice('+-*')}= {self.number()}")
            elif place:
                self.line(f"{name}{place} = {r.choice(['0.5', self.tensor(1) + place])}")
            else:
                self.line(f"{name}.mul_({self.tensor(1)})")
        self.known["Tensor"].append(name)

    def block(self, count: int = 2) -> None:
        """Indented statements, whose new names end with it."""
        before = {kind: list(names) for kind, names in self.known.items()}
        self.depth += 1
        for _ in range(self.r.randint(1, count)):
            self.statement()
        self.depth -= 1
        self.known = before

    def branch(self) -> None:
        self.line(f"if {self.truth()}:")
        self.block()
        if self.r.random() < 0.3:
            self.line(f"elif {self.truth()}:")
            self.block()
        if self.r.random() < 0.6:
            self.line("else:")
            self.block()

    def inner(self, extra: list[tuple[str, str]], way_out: bool = True) -> None:
        """The body of a loop, with names of its own."""
        before = {kind: list(names) for kind, names in self.known.items()}
        for kind, name in extra:
            self.known[kind] = [*self.known[kind], name]
        if way_out and self.r.random() < 0.3:
            self.depth += 1
            self.line(f"if {self.truth(False)}:")
            self.line(f"    {self.r.choice(['break', 'continue'])}")
            self.depth -= 1
        self.block()
        self.known = before

    def counted(self) -> None:
        self.made += 1
        name = f"i{self.made}"
        bounds = [f"{self.r.randint(0, 3)}", "n % 3", f"1, {self.r.randint(1, 4)}", "3, 0, -1", "len(ks) % 4"]
        self.line(f"for {name} in range({self.r.choice(bounds)}):")
        self.inner([("int", name)])

    def over_list(self) -> None:
        self.made += 1
        t, i = f"t{self.made}", f"i{self.made}"
        way = self.r.randint(0, 2)
        if way == 0:
            self.line(f"for {t} in [{self.tensor(1)}, {self.tensor(1)}]:")
            self.inner([("Tensor", t)])
        elif way == 1:
            self.line(f"for {i}, {t} in enumerate(ts[:2]):")
            self.inner([("Tensor", t), ("int", i)])
        else:
            self.line(f"for {t}, {i} in zip(ts[:2], ks[:2]):")
            self.inner([("Tensor", t), ("int", i)])

    def turning(self) -> None:
        """While, on a number of its own or on the data."""
        self.made += 1
        name = f"w{self.made}"
        self.line(f"{name} = 0")
        data = f" and bool({self.name('Tensor')}.abs().sum() < 40)" if self.r.random() < 0.3 else ""
        self.line(f"while {name} < {self.r.randint(1, 4)}{data}:")
        self.line(f"    {name} += 1")
        self.inner([("int", name)])

    def over_parts(self) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.line(f"for {name} in self.parts:")
        self.line(f"    y = {name}(y, {self.truth(False)})")
