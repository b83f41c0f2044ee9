"""Arithmetic on sizes that are known only by name: ``batch * 2``, ``(height + 31)//32``.

A size is an int, a name, or an :class:`Expression` of names. Expressions are strings too, in one canonical form, so
that equal strings are equal sizes and everything that carries names carries them. They are polynomials with integer
coefficients in names and in the few functions that shapes need: floor division by a number, maximum and minimum.

Sizes are never negative; that, and nothing else, is taken as known of a name. None stands for an unknown size, and
whatever is computed from it, or grows past :data:`MAX_TERMS`, is None.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

Size = int | str | None
MAX_TERMS = 8
MAX_TEXT = 200
_Terms = dict[tuple[str, ...], int]
_Operands = tuple[int | str, ...]


_Function = TypeVar("_Function", bound=Callable[..., Size])


def _kept(function: _Function) -> _Function:
    """Remembers results: traces ask for few sums, many times. Names and expressions of one text are told apart."""
    return functools.lru_cache(maxsize=1 << 14, typed=True)(function)  # type: ignore[return-value]


class Expression(str):
    """A canonical sum of products, such as ``batch*2 + 1``; ``terms`` maps sorted factors to their coefficient."""

    terms: _Terms

    def __new__(cls, text: str, terms: _Terms) -> Expression:
        made = super().__new__(cls, text)
        made.terms = terms
        return made

    def __getnewargs__(self) -> tuple[str, _Terms]:  # type: ignore[override]
        return str(self), self.terms


class Function(str):
    """A factor that is no name: ``kind`` is ``//``, ``max`` or ``min``."""

    kind: str
    operands: _Operands

    def __new__(cls, text: str, kind: str, operands: _Operands) -> Function:
        made = super().__new__(cls, text)
        made.kind, made.operands = kind, operands
        return made

    def __getnewargs__(self) -> tuple[str, str, _Operands]:  # type: ignore[override]
        return str(self), self.kind, self.operands


@_kept
def add(*sizes: Size) -> Size:
    """The sum; 0 for no sizes."""
    total: _Terms = {}
    for size in sizes:
        if size is None:
            return None
        for factors, count in _terms(size).items():
            total[factors] = total.get(factors, 0) + count
    return _made(total)


def subtract(x: Size, y: Size) -> Size:
    return add(x, multiply(y, -1))


@_kept
def multiply(*sizes: Size) -> Size:
    """The product; 1 for no sizes. A factor of 0 makes it 0 whatever the others are."""
    if 0 in sizes:
        return 0
    total: _Terms = {(): 1}
    for size in sizes:
        if size is None:
            return None
        found: _Terms = {}
        for a, m in total.items():
            for b, n in _terms(size).items():
                key = tuple(sorted((*a, *b)))
                found[key] = found.get(key, 0) + m * n
        if len(found) > MAX_TERMS:
            return None
        total = found
    return _made(total)


@_kept
def exact_quotient(x: Size, y: Size) -> Size:
    """``x / y`` where it is known to leave no rest, as of sizes of a reshaped tensor; None where that is not seen."""
    if x is None or y is None or y == 0:
        return None
    below = _terms(y)
    if len(below) != 1:
        return 1 if x == y else None
    (drop, count), out = next(iter(below.items())), {}
    for factors, number in _terms(x).items():
        left = list(factors)
        for name in drop:
            if name not in left:
                return None
            left.remove(name)
        if number % count:
            return floor_divide(x, y)
        out[tuple(left)] = number // count
    return _made(out)


@_kept
def floor_divide(x: Size, y: Size) -> Size:
    """``x // y``, rounded down; by names only where they cancel."""
    if x is None or y is None or y == 0:
        return None
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    if not isinstance(y, int):
        below = _terms(y)
        exact = len(below) == 1 and all(not n % c for c in below.values() for n in _terms(x).values())
        return exact_quotient(x, y) if exact or x == y else None
    if y < 0:
        return None
    whole: _Terms = {}
    rest: _Terms = {}
    for factors, count in _terms(x).items():
        if count % y == 0:
            whole[factors] = count // y
        elif factors:
            rest[factors] = count
        else:
            whole[factors], rest[factors] = count // y, count % y
    if not any(rest):
        return _made(whole)
    if len(rest) <= 2 and any(len(f) == 1 and n == 1 and _is_quotient(f[0]) for f, n in rest.items()):
        inner = next(f[0] for f, n in rest.items() if len(f) == 1 and n == 1 and _is_quotient(f[0]))
        if set(rest) <= {(inner,), ()}:  # (x//a + k)//b = (x + k*a)//(a*b)
            assert isinstance(inner, Function)
            above, divisor = inner.operands
            grown = add(above, rest.get((), 0) * int(divisor))
            return add(_made(whole), floor_divide(grown, int(divisor) * y))
    common = math.gcd(y, *rest.values())  # a constant below the common divisor goes with the rounding
    if common == 1 and () in rest:
        named = math.gcd(y, *(n for f, n in rest.items() if f))
        if named > 1:
            rest[()] -= rest[()] % named
            common = named
    left, divisor = _made({f: n // common for f, n in rest.items() if n}), y // common
    if left is None or isinstance(left, int):
        return None
    if divisor == 1:
        return add(_made(whole), left)
    text = f"{left}//{divisor}" if _is_atom(left) or _is_product(left) else f"({left})//{divisor}"
    return add(_made(whole), _function(text, "//", (left, divisor)))


def ceil_divide(x: Size, y: Size) -> Size:
    """``x / y`` rounded up, for a positive number ``y``."""
    return floor_divide(add(x, y - 1), y) if isinstance(y, int) and y > 0 else None


def modulo(x: Size, y: Size) -> Size:
    """The rest of :func:`floor_divide`."""
    return subtract(x, multiply(floor_divide(x, y), y))


def maximum(x: Size, y: Size) -> Size:
    return _extreme("max", x, y)


def minimum(x: Size, y: Size) -> Size:
    return _extreme("min", x, y)


def lower_bound(size: Size) -> int | None:
    """A number that the size is never below; None where none is known."""
    if size is None or isinstance(size, int):
        return size
    if isinstance(size, Function):
        bounds = [lower_bound(v) for v in size.operands]
        known = [b for b in bounds if b is not None]
        if size.kind == "//":
            return None if bounds[0] is None else bounds[0] // int(size.operands[1])
        if size.kind == "max":
            return max(known) if known else None
        return min(known) if len(known) == len(bounds) else None
    total = 0
    for factors, count in _terms(size).items():
        bounds = [lower_bound(f) if isinstance(f, Function) else 0 for f in factors]
        if (count < 0 and factors) or any(b is None or b < 0 for b in bounds):
            return None
        total += count * math.prod(b for b in bounds if b is not None)
    return total


def evaluate(size: int | str, values: Mapping[str, int]) -> int:
    """The number that a size has when names have these values; ``KeyError`` for a name that has none."""
    if isinstance(size, int):
        return size
    if isinstance(size, Function):
        parts = [evaluate(v, values) for v in size.operands]
        return parts[0] // parts[1] if size.kind == "//" else max(parts) if size.kind == "max" else min(parts)
    if isinstance(size, Expression):
        return sum(n * math.prod(evaluate(f, values) for f in factors) for factors, n in size.terms.items())
    return values[size]


def names(size: Size) -> set[str]:
    """The names that a size is computed from."""
    if size is None or isinstance(size, int):
        return set()
    if isinstance(size, Function):
        return set().union(*(names(v) for v in size.operands))
    if isinstance(size, Expression):
        return set().union(*(names(f) for factors in size.terms for f in factors))
    return {str(size)}


_TOKEN = re.compile(r"\s*(?:(\d+)|(max|min)(?=\()|([A-Za-z_][\w.]*)|(//|[-+*(),]))")


def parse(text: str) -> int | str:
    """The size that a text such as ``(height + 31)//32`` writes; text of another kind is a name as it stands."""
    tokens: list[re.Match[str]] = []
    at = 0
    while at < len(text) <= MAX_TEXT:
        match = _TOKEN.match(text, at)
        if match is None:
            return text
        tokens.append(match)
        at = match.end()
    if len(tokens) < 2:
        return text
    try:
        found = _Parser(tokens).whole()
    except (IndexError, ValueError):
        return text
    return text if found is None else found


class _Parser:
    """Sums of products, from left to right; ``IndexError`` or ``ValueError`` where the text is none."""

    def __init__(self, tokens: list[re.Match[str]]) -> None:
        self.tokens = tokens[::-1]

    def whole(self) -> Size:
        found = self.sum()
        if self.tokens:
            raise ValueError
        return found

    def takes(self, *wanted: str) -> str:
        """The next token if it is one of these, else nothing."""
        return self.tokens.pop()[0].strip() if self.tokens and self.tokens[-1][0].strip() in wanted else ""

    def sum(self) -> Size:
        total = multiply(self.product(), -1) if self.takes("-") else self.product()
        while sign := self.takes("+", "-"):
            total = add(total, self.product()) if sign == "+" else subtract(total, self.product())
        return total

    def product(self) -> Size:
        found = self.factor()
        while kind := self.takes("*", "//"):
            found = multiply(found, self.factor()) if kind == "*" else floor_divide(found, self.factor())
        return found

    def factor(self) -> Size:
        number, function, name, sign = self.tokens.pop().groups()
        if number or name:
            return int(number) if number else str(name)
        if sign not in ("(", None) or (function and not self.takes("(")):
            raise ValueError
        found = self.sum()
        if function:
            if not self.takes(","):
                raise ValueError
            found = _extreme(function, found, self.sum())
        if not self.takes(")"):
            raise ValueError
        return found


# -- canonical form -------------------------------------------------------------------------------------------------


def _terms(size: int | str) -> _Terms:
    if isinstance(size, Expression):
        return size.terms
    if isinstance(size, str):
        return {(size,): 1}
    return {(): size} if size else {}


def _made(terms: _Terms) -> Size:
    """The size of a sum: an int, a name or function that stands alone, or an expression."""
    kept = {factors: count for factors, count in sorted(terms.items(), key=_place) if count}
    if not kept:
        return 0
    if len(kept) == 1:
        factors, count = next(iter(kept.items()))
        if not factors:
            return count
        if len(factors) == 1 and count == 1:
            return factors[0]
    if len(kept) > MAX_TERMS:
        return None
    text = ""
    for factors, count in kept.items():
        parts = [f"({f})" if isinstance(f, Function) and f.kind == "//" and len(factors) > 1 else f for f in factors]
        written = "*".join((*parts, *([str(abs(count))] if abs(count) != 1 or not factors else [])))
        sign = (" - " if count < 0 else " + ") if text else "-" if count < 0 else ""
        text += sign + written
    return Expression(text, kept) if len(text) <= MAX_TEXT else None


def _place(item: tuple[tuple[str, ...], int]) -> tuple[bool, bool, tuple[str, ...]]:
    """Positive terms first, the plain number last."""
    factors, count = item
    return not factors, count < 0, factors


def _function(text: str, kind: str, operands: _Operands) -> Size:
    return Function(text, kind, operands) if len(text) <= MAX_TEXT else None


def _is_atom(size: int | str) -> bool:
    return not isinstance(size, Expression) and not isinstance(size, Function)


def _is_product(size: int | str) -> bool:
    return isinstance(size, Expression) and len(size.terms) == 1 and min(size.terms.values()) > 0


def _is_quotient(name: str) -> bool:
    return isinstance(name, Function) and name.kind == "//"


def _extreme(kind: str, x: Size, y: Size) -> Size:
    if x is None or y is None:
        return None
    choose: Callable[[int, int], int] = max if kind == "max" else min
    if isinstance(x, int) and isinstance(y, int):
        return choose(x, y)
    for a, b in ((x, y), (y, x)):
        apart = lower_bound(subtract(a, b))
        if apart is not None and apart >= 0:
            return a if kind == "max" else b
    first, second = sorted((x, y), key=lambda v: (isinstance(v, int), str(v)))
    return _function(f"{kind}({first}, {second})", kind, (first, second))


__all__ = [
    "Expression", "Function", "Size", "add", "ceil_divide", "evaluate", "exact_quotient", "floor_divide",
    "lower_bound", "maximum", "minimum", "modulo", "multiply", "names", "parse", "subtract",
]  # fmt: skip
