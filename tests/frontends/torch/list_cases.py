"""Runs in the environment that has torch: scripted programs with lists that grow, decoders, and branches of two ranks.

``python -m tests.frontends.torch.list_cases OUT SEED`` writes ``OUT-NAME.pt`` and ``OUT-NAME.npz`` for each module:
several inputs, drawn like the sizes and weights from the seed, and torch's answers.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor, nn

from tests.frontends.torch.number_cases import (
    Accumulated,
    Asked,
    Edited,
    Mathematics,
    Packed,
    RuntimeKey,
    TakenApart,
    Tasks,
)  # fmt: skip

WIDTH = 4


class GrowsByCount(nn.Module):
    """A list that a loop of as many turns as the data say appends to; it begins empty, or with something."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        rows: list[Tensor] = []
        more = [x[0], x[1]]
        for i in range(int(x.abs().sum()) % 7):
            rows.append(x[i % 3] * float(i))
            more.append(x.sum(0) - i)
        rows.append(x[2])
        return torch.stack(rows), torch.stack(more, 1), len(rows)


class GrowsInBranch(nn.Module):
    """A branch that appends and one that does not; the list is read within the loop."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = [x[0]]
        at: list[int] = []
        for i in range(x.shape[0] + int(x[0, 0] > 0)):
            if bool(x[i % 3].sum() > 0):
                kept.append(kept[-1] * 0.5 + x[i % 3])
                at.append(i)
        return torch.cat(kept), torch.tensor(at, dtype=torch.int64)


class Masked(nn.Module):
    """A decoder of torch's, which looks whether the mask that it is given is the usual one; its size the data say."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 2, 8, batch_first=True), 1)

    def forward(self, x: Tensor | list[Tensor]) -> list[Tensor]:
        y = x if isinstance(x, Tensor) else torch.stack(x)
        n = 1 + int(y.abs().sum()) % 3
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        return [self.core(y[:n].unsqueeze(0), y.unsqueeze(0), tgt_mask=mask)]


class Joined(nn.Module):
    """Lists that are joined, cut and indexed by numbers that the data say."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts: list[Tensor] = []
        n = int(x.abs().sum()) % 5
        while len(parts) < n:
            parts += [x[len(parts) % 3, :2], x[0, 2:]]
        last = [x[1, 1:3]]
        parts = parts + last
        cut = parts[1:]
        cut.append(parts[n])
        return torch.stack(parts, -1), torch.cat(cut, 0), parts[0] * parts[-1]


class Chosen(nn.Module):
    """Items of a plain list at a place that the data say, read and set."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = [x[0], x[1], x[2]]
        at = int(x.abs().sum()) % 3
        total = rows[at] * 1.0
        for i in range(at + 1):
            total = total + rows[i] * rows[-i - 1]
        rows[at] = total
        return total, torch.stack(rows)


class Greedy(nn.Module):
    """An encoder and a decoder that writes until it says the end."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRUCell(WIDTH, WIDTH)
        self.embedding = nn.Embedding(words, WIDTH)
        self.out = nn.Linear(WIDTH, words)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = self.encoder(x.unsqueeze(0))[1][0]
        token = torch.zeros(1, dtype=torch.int64)
        words: list[Tensor] = []
        scores: list[Tensor] = []
        for _ in range(9):
            state = self.decoder(self.embedding(token), state)
            logits = self.out(state)
            token = logits.argmax(-1)
            words.append(token)
            scores.append(logits.max(-1)[0])
            if int(token) < 2:
                break
        return torch.stack(words, 1), torch.cat(scores)


class Beams(nn.Module):
    """Beam search that ends when the best has ended."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.cell = nn.LSTMCell(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, words)
        self.words, self.width = words, width

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h, c = x.mean(0, keepdim=True).repeat(self.width, 1), torch.zeros(self.width, x.shape[1])
        scores = torch.full((self.width,), -1e9)
        scores[0] = 0.0
        lines = torch.zeros(self.width, 1, dtype=torch.int64)
        steps: list[Tensor] = []
        n = 0
        while n < 8 and not bool(lines[0, -1] == 1):
            h, c = self.cell(self.embedding(lines[:, -1]), (h, c))
            total = scores.unsqueeze(1) + torch.log_softmax(self.out(h), -1)
            scores, best = total.flatten().topk(self.width)
            beam = torch.div(best, self.words, rounding_mode="floor")
            h, c = h[beam], c[beam]
            lines = torch.cat([lines[beam], (best % self.words).unsqueeze(1)], 1)
            steps.append(scores)
            n += 1
        return {"lines": lines, "scores": scores, "steps": torch.stack(steps)}


class Early(nn.Module):
    """Returns from within branches and loops, and results that may be None."""

    def maybe(self, x: Tensor, most: int) -> Tensor | None:
        if x.shape[0] > most:
            return None
        return x * 2

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.maybe(x, 2)
        other = self.maybe(x, 3)
        y = x if found is None else found
        if other is not None:
            y = y + other
        return self.first(y), self.chosen(y)

    def first(self, x: Tensor) -> Tensor:
        for i in range(int(x.abs().sum()) % 6 + 1):
            if bool(x[i % 3].sum() > 0):
                return x[i % 3] + i
        return x.sum(0)

    def chosen(self, x: Tensor) -> Tensor:
        if bool(x[0, 0] > 0):
            return x.mean(0)
        elif bool(x[1, 0] > 0):
            return x[1] * 3
        return x[2]


class Optionals(nn.Module):
    """What is None until the data say otherwise, and a part of a result that may be."""

    def half(self, x: Tensor) -> Tensor | None:
        if bool(x.sum() > 0):
            return x * 0.5
        return None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best: Tensor | None = None
        for i in range(int(x.abs().sum()) % 4):
            row = x[i % 3]
            if best is None:
                best = row
            elif bool(row.sum() > best.sum()):
                best = row + 1
        pair: tuple[Tensor, Tensor] | None = None
        if bool(x[0, 0] > 0):
            pair = (x * 2, x[0])
        half = self.half(x)
        y = x if half is None else half
        if pair is not None:
            y = y + pair[0]
        found = torch.full_like(x[0], -1.0)
        if best is not None:
            found = best
        last = found
        if half is not None and pair is not None:
            last = half.sum(0) - pair[1]
        return found, y, last


class TwoRanks(nn.Module):
    """As torchvision decodes boxes: another rank where there are none; and a rank that the data say, for a while."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes = x[x[:, 0] > 0]
        n = boxes.shape[0]
        if n > 0:
            boxes = boxes.reshape(n, -1, 2)
        rows = boxes[:, 1:].reshape(-1, 2) * 2
        y = x
        if bool(x.sum() > 0):
            y = x.mean(0)
        if y.dim() == 1:
            y = y.unsqueeze(0)
        return rows, y + 1


class Suppressed(nn.Module):
    """As detectors do: of each class the best boxes, one after the other, in a list of as many as there are."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        near = (x.unsqueeze(0) - x.unsqueeze(1)).abs().sum(-1)
        left = torch.ones(x.shape[0], dtype=torch.bool)
        kept: list[int] = []
        rows: list[Tensor] = []
        while bool(left.any()):
            best = int(torch.where(left, x[:, 0], torch.full_like(x[:, 0], -1e9)).argmax())
            kept.append(best)
            rows.append(x[best])
            left = left & (near[best] > 2.5)
        return torch.tensor(kept), torch.stack(rows)


class Numbers(nn.Module):
    """Numbers that the data give are whole where the program says so, also in a list."""

    def forward(self, x: Tensor) -> tuple[Tensor, int, float]:
        n = int(x.abs().sum())
        halves = [n / 2, float(x[0, 0])]
        while len(halves) < n % 4 + 2:
            halves.append(halves[-1] * 0.5 + n)
        return torch.tensor(halves), n, halves[n % 4]


class Replaced(nn.Module):
    """A list that each turn begins anew, and branches of two ranks that a number says, which is no count."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows: list[Tensor] = []
        for i in range(int(x.abs().sum()) % 7 + 1):
            rows = [x[i % 3] * 2]
        if float(x.sum()) > 0:
            y = x * 2
        else:
            y = x.flatten() * 3
        return torch.stack(rows), y + 1


class HeldIsWritten(nn.Module):
    """Refused: what a list holds is written in place, and the list is read."""

    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        held = x[0] * 1.0
        for _ in range(int(x.abs().sum()) % 7 + 1):
            rows.append(held)
        held += 1000.0
        return torch.stack(rows)


class ItemIsWritten(nn.Module):
    """Refused: the same through the list."""

    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for i in range(int(x.abs().sum()) % 7 + 1):
            rows.append(x[i % 3] + 1.0)
        rows[0].add_(100.0)
        return torch.stack(rows)


class Ragged(nn.Module):
    """Refused: items of as many shapes as turns."""

    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for i in range(int(x.abs().sum()) % 3):
            rows.append(x[0, : i + 1])
        return torch.cat(rows)


class NoneOut(nn.Module):
    """Refused: a result that is None as the data say."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if bool(x.sum() > 0):
            return x, None
        return x, x * 2


REFUSED = (Ragged, NoneOut, HeldIsWritten, ItemIsWritten, RuntimeKey)
MODULES = {
    "GrowsByCount": lambda draw: GrowsByCount(),
    "GrowsInBranch": lambda draw: GrowsInBranch(),
    "Masked": lambda draw: Masked(),
    "Joined": lambda draw: Joined(),
    "Chosen": lambda draw: Chosen(),
    "Greedy": lambda draw: Greedy(int(draw.integers(4, 12))),
    "Beams": lambda draw: Beams(int(draw.integers(4, 9)), int(draw.integers(2, 4))),
    "Early": lambda draw: Early(),
    "Optionals": lambda draw: Optionals(),
    "TwoRanks": lambda draw: TwoRanks(),
    "Suppressed": lambda draw: Suppressed(),
    "Numbers": lambda draw: Numbers(),
    "Replaced": lambda draw: Replaced(),
    "Edited": lambda draw: Edited(),
    "Accumulated": lambda draw: Accumulated(),
    "TakenApart": lambda draw: TakenApart(),
    "Mathematics": lambda draw: Mathematics(),
    "Packed": Packed,
    "Asked": lambda draw: Asked(),
    "Tasks": lambda draw: Tasks(),
}


def flat(result: object) -> list[Tensor]:
    if isinstance(result, dict):
        return list(result.values())
    return [v if isinstance(v, Tensor) else torch.from_numpy(np.asarray(v)) for v in result]


def main() -> None:
    out, seed = sys.argv[1], int(sys.argv[2])
    torch.set_grad_enabled(False)
    for name, make in MODULES.items():
        draw = np.random.default_rng([seed, len(name)])
        torch.manual_seed(seed)
        module, arrays = torch.jit.script(make(draw).eval()), {}
        module.save(f"{out}-{name}.pt")
        for run in range(5):
            x = torch.from_numpy(draw.standard_normal((3, WIDTH)).astype(np.float32)) * 1.5
            arrays[f"{run}_in"] = x.numpy()
            arrays |= {f"{run}_out_{i}": y.numpy().copy() for i, y in enumerate(flat(module(x)))}
        np.savez(f"{out}-{name}.npz", **arrays)
    for refused in REFUSED:
        torch.jit.script(refused()).save(f"{out}-{refused.__name__}.pt")
        np.savez(f"{out}-{refused.__name__}.npz")


if __name__ == "__main__":
    main()
