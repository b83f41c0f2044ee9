"""The networks whose losses are compared with torch's."""

from __future__ import annotations

import numpy as np

import MNN

F, nn = MNN.expr, MNN.nn


class Small(nn.Module):
    """Two convolutions, one with a batch normalisation."""

    def __init__(self):
        super().__init__()
        self.first = nn.conv(1, 8, 3, padding=1)
        self.norm = nn.batch_norm(8)
        self.second = nn.conv(8, 16, 3, padding=1)
        self.last = nn.linear(16 * 16, 10)

    def forward(self, x):
        h = F.relu(self.norm(self.first(x)))
        h = F.max_pool(F.relu(self.second(h)), [2, 2], [2, 2])
        return self.last(F.reshape(F.convert(h, F.NCHW), [0, -1]))


class Block(nn.Module):
    """Causal attention of two heads, and two products."""

    def __init__(self, width):
        super().__init__()
        self.before = nn.layer_norm(width)
        self.q, self.k, self.v, self.out = (nn.linear(width, width, False) for _ in range(4))
        self.between = nn.layer_norm(width)
        self.up, self.down = nn.linear(width, 4 * width), nn.linear(4 * width, width)

    def forward(self, h):
        batch, length, width = h.shape
        n = self.before(h)

        def heads(x):
            return F.transpose(F.reshape(x, [batch, length, 2, width // 2]), [0, 2, 1, 3])

        q, k, v = heads(self.q(n)), heads(self.k(n)), heads(self.v(n))
        mask = np.triu(np.full((length, length), -1e9, np.float32), 1)
        score = F.matmul(q, k, False, True) * float((width // 2) ** -0.5) + mask
        mixed = F.matmul(F.softmax(score, -1), v)
        h = h + self.out(F.reshape(F.transpose(mixed, [0, 2, 1, 3]), [batch, length, width]))
        return h + self.down(F.gelu(self.up(self.between(h))))


class Language(nn.Module):
    """A small language model."""

    def __init__(self, count, length, width):
        super().__init__()
        self.tokens = nn.embedding(count, width)
        self.places = F.const(
            (np.random.default_rng(5).normal(size=(length, width)) * 0.1).astype(np.float32), [length, width]
        )
        self.one, self.two = Block(width), Block(width)
        self.after = nn.layer_norm(width)
        self.head = nn.linear(width, count, False)

    def forward(self, x):
        h = self.tokens(x) + self.places
        return self.head(self.after(self.two(self.one(h))))
