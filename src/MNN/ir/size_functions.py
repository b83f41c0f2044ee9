"""Functions of open sizes, made of formulas and compiled once: every new size of an input asks for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from MNN.ir.symbolic import Expression, Function, parse

Shape = tuple["int | str", ...]
"""Sizes of a tensor: numbers, and formulas of the open ones."""
Sizes = tuple[int, ...]
_EXTREMES = {"max": max, "min": min}


def compiled(sizes: Sequence[int | str], order: Sequence[str], arrays: bool = False) -> Callable[..., tuple[Any, ...]]:
    """What :func:`MNN.ir.symbolic.evaluate` does for all ``sizes`` (or texts that write them), as a function of the
    values of the names in ``order``; ``arrays`` of values give arrays."""
    at = _variables(order)
    text = "".join(f"{_python(size, at)}," for size in sizes)
    extremes = {"max": np.maximum, "min": np.minimum} if arrays else _EXTREMES
    found: Callable[..., tuple[Any, ...]] = eval(f"lambda {','.join(at.values())}: ({text})", extremes)
    return found


def shapes_at(shapes: Sequence[Shape], names: Sequence[str]) -> Callable[..., list[Sizes]]:
    """The sizes of tensors as a function of the open ones, in the order of ``names``."""
    different = list(dict.fromkeys(shapes))
    at = _variables(names)
    texts = ["(" + "".join(f"{_python(size, at)}," for size in shape) + ")" for shape in different]
    every: Callable[..., list[Sizes]] = eval(f"lambda {','.join(at.values())}: [{','.join(texts)}]", _EXTREMES)
    if len(different) == len(shapes):
        return every
    numbers = [different.index(shape) for shape in shapes]

    def found(*sizes: int) -> list[Sizes]:
        made = every(*sizes)
        return [made[number] for number in numbers]

    return found


def matcher(
    names: Sequence[str], least: Sequence[int], most: Sequence[int], shapes: Sequence[Shape]
) -> Callable[[Sequence[Sizes]], Sizes | None]:
    """What open sizes, each from ``least`` to ``most``, have to be for tensors of ``shapes`` to have the sizes at hand,
    as a function of these; it gives None where there are no such sizes."""
    at = _variables(names)
    alike: dict[Shape, list[int]] = {}
    for number, shape in enumerate(shapes):  # there are as many caches as layers
        alike.setdefault(tuple(shape), []).append(number)
    known: set[str] = set()
    first: list[str] = []  # lengths come before what looks into shapes, sizes that tell an open one before formulas
    tells: list[str] = []
    later: list[str] = []
    for shape, numbers in alike.items():
        given = f"s[{numbers[0]}]"
        first.append(f"len({given})=={len(shape)}")
        if len(numbers) > 1:
            first.append("==".join([f"s[{number}]" for number in numbers]))
        for axis, size in enumerate(shape):
            there = f"{given}[{axis}]"
            parsed = parse(size) if isinstance(size, str) else int(size)
            name, times = (None, 1) if isinstance(parsed, int) else _multiple_of(parsed)
            if name is None or name not in at or name in known:
                later.append(f"{_python(parsed, at)}=={there}")
                continue
            known.add(name)
            if times > 1:
                tells.append(f"{there}%{times}==0")
            low, high = (bounds[list(names).index(name)] for bounds in (least, most))
            tells.append(f"{int(low)}<=({at[name]}:={there}//{times})<={int(high)}")
    if len(known) < len(names):
        return lambda shapes: None
    asked = " and ".join([f"len(s)=={len(shapes)}", *first, *tells, *later])
    sizes = "".join(f"{n}," for n in at.values())
    found: Callable[[Sequence[Sizes]], Sizes | None] = eval(f"lambda s: ({sizes}) if {asked} else None", _EXTREMES)
    return found


def _variables(names: Sequence[str]) -> dict[str, str]:
    return {name: f"n{i}" for i, name in enumerate(names)}


def _python(size: int | str, at: Mapping[str, str]) -> str:
    """An expression of Python: of numbers, the variables of names and functions that sizes have, whatever the text."""
    if type(size) is str:
        size = parse(size)
    if isinstance(size, int):
        return str(int(size))
    if isinstance(size, Function):
        x, y = (_python(v, at) for v in size.operands)
        return f"({x})//({y})" if size.kind == "//" else f"{size.kind}({x},{y})"
    if isinstance(size, Expression):
        terms = ["*".join([str(n), *(f"({_python(f, at)})" for f in factors)]) for factors, n in size.terms.items()]
        return f"({'+'.join(terms)})"
    return at[size]


def _multiple_of(size: str) -> tuple[str | None, int]:
    """The name that a size is a multiple of, and how many times; no name where it is anything else."""
    if isinstance(size, Function):
        return None, 1
    if not isinstance(size, Expression):
        return size, 1
    terms = list(size.terms.items())
    if len(terms) != 1 or len(terms[0][0]) != 1 or terms[0][1] < 1:
        return None, 1
    (factor,), times = terms[0]
    return (None if isinstance(factor, (Expression, Function)) else str(factor)), times


__all__ = ["compiled", "matcher", "shapes_at"]
