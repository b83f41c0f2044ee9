"""Scripted modules for :mod:`tests.frontends.torch.list_cases`: numbers of the run, lists made of tensors, tensors that
are added to, packed sequences."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Edited(nn.Module):
    """Lists of an open length that are put into, taken from, turned round, ordered and reduced."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int, Tensor, Tensor, int]:
        n = int(x.abs().sum()) % 5 + 3
        rows: list[Tensor] = []
        for i in range(n):
            rows.insert(0, x[i % 3] * i)
        rows.insert(n - 1, x[0])
        last, second = rows.pop(), rows.pop(1)
        del rows[n - 2]
        rows.reverse()
        numbers = [i * i - 2 * n for i in range(n)]
        numbers.sort(reverse=True)
        numbers.append(numbers[0] + 1)
        total = sum(numbers) + max(numbers) - min(numbers)
        backwards = torch.tensor(sorted(numbers)[::-1])
        return torch.stack(rows[::-1]), last - second, total, backwards, torch.stack(rows), 7


class TakenApart(nn.Module):
    """Tensors as lists of their numbers and of their parts, whose count the data or the sizes say."""

    def forward(self, x: Tensor) -> tuple[Tensor, int, float, Tensor, Tensor]:
        counts: list[int] = (x.sum(1) * 3).long().tolist()
        kept: list[float] = x[:, 0][x[:, 1] > 0].tolist()
        first, second = x.unbind(0)[:2]
        total, weighted = 0, 0.0
        for n in counts:
            total += n
        for i, row in enumerate(torch.unbind(x)):
            weighted += float(row[1]) * i
        columns = [c * 2 for c in x.unbind(1)]
        return torch.tensor(kept), total, weighted, first - second, torch.stack(columns)


class Accumulated(nn.Module):
    """``+=`` in loops: the same tensor in every turn, which has other names and is a part of another one."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total = torch.zeros(x.shape[1])
        other = total
        whole = x * 1.0
        row = whole[1]
        for i in range(int(x.abs().sum()) % 5):
            for j in range(i):
                if bool(x[j % 3].sum() > 0):
                    total += x[i % 3] * x[j % 3]
                else:
                    row *= 0.5
            row += total
        return total, other * 2, whole


class Mathematics(nn.Module):
    """Functions of numbers that the data and the sizes give; a rounded number is a float."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        n, k, f = x.size(0), int(x[0, 0] * 10), float(x[0, 1]) * 4
        q, p, half = f / 40, abs(f) + 1.0, int(x[0, 2] * 3) + 0.5
        circles = [math.asin(q), math.acos(q), math.atan(f), math.atan2(f, 2.0), math.degrees(f), math.radians(f)]
        circles += [math.asinh(f), math.acosh(p), math.atanh(q), math.sinh(q), math.cosh(q)]
        others = [math.erf(f), math.erfc(q), math.expm1(q), math.log10(p), math.lgamma(p), math.fabs(f)]
        others += [math.copysign(2.0, f), math.fmod(f, 1.5), math.ldexp(f, 3), math.modf(f)[0], math.frexp(p)[0]]
        others += [divmod(f, 1.5)[1], round(half), round(-half), f % -1.5, f // -1.5, 2.0**k]
        whole = [n << 2, k >> 1, divmod(k, 3)[0], k % -3, k // -3, -k % 4, int(-f), k // n, n & 3, n | 8, n ^ 5]
        known = [math.isnan(f), math.isinf(p / 0.5), math.isfinite(f), bool(k), k > 2 and n > 3]
        return torch.tensor(circles + others), torch.tensor(round(f)), torch.tensor(whole), torch.tensor(known)


class Packed(nn.Module):
    """Sequences of lengths that the data say, packed: an LSTM and another layer of drawn forms; padded again."""

    def __init__(self, draw: np.random.Generator) -> None:
        super().__init__()
        first, second = (int(n) for n in draw.integers(2, 6, 2))
        layers, both = int(draw.integers(1, 3)), bool(draw.integers(2))
        self.lstm = nn.LSTM(1, first, layers, bidirectional=both, bias=bool(draw.integers(2)), batch_first=True)
        kind = [nn.GRU, nn.RNN][int(draw.integers(2))]
        self.last = kind(first * (1 + both), second, bidirectional=bool(draw.integers(2)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        lengths = x.sum(1).abs().long() % 4 + 1
        steps = pack_padded_sequence(x.unsqueeze(-1), lengths, batch_first=True, enforce_sorted=False)
        states, (h, c) = self.lstm(steps)
        last, end = self.last(states)
        y, n = pad_packed_sequence(states, batch_first=True, padding_value=-1.5)
        return y, n, h, c, pad_packed_sequence(last, total_length=6)[0], end


class Asked(nn.Module):
    """Lists of numbers that the data say are asked for all, any, a place and a count."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        signs = [bool(row.sum() > 0) for row in x]
        best = [int(row.argmax()) for row in x]
        first = best[0]
        y = x
        if all(signs):
            y = y + 1.0
        if any(signs):
            y = y * 2.0
        told = [all(signs), any(signs), all(best), any(best), any(signs[1:]), 3 in best]
        asked = [best.count(first), best.count(2), best.index(best[2]), [first, 1, 2, 0, 3].index(1)]
        grown: list[bool] = []
        for i in range(int(x.abs().sum()) % 4):
            grown.append(bool(x[i % 3, 0] > 0))
        told += [all(grown), any(grown)]
        return y, torch.tensor(told), torch.tensor(asked)


class Tasks(nn.Module):
    """Tasks that are started and waited for, in loops and in branches that the data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)

    def weighed(self, x: Tensor, weight: float) -> Tensor:
        y = self.part(x)
        return y * weight

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        tasks = [torch.jit.fork(self.weighed, x, 0.5)]
        for i in range(2):
            tasks.append(torch.jit.fork(self.weighed, x + i, float(i)))
        y = x * 3.0
        if bool(x.sum() > 0):
            task = torch.jit.fork(self.weighed, y, 2.0)
            y = torch.jit.wait(task) - 1.0
        named: dict[str, Tensor] = {"x": x}
        named.setdefault("x", y)
        other = named.setdefault("y", y + named["x"])
        return torch.stack([torch.jit.wait(t) for t in tasks]), y, other


class RuntimeKey(nn.Module):
    """Refused: a dictionary's key that the data say."""

    def forward(self, x: Tensor) -> Tensor:
        rows = {int(x[0].argmax()): x}
        return rows[int(x[1].argmax())]
