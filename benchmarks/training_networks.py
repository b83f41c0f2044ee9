"""The networks of :mod:`benchmarks.training`, as :mod:`benchmarks.training_torch` has them."""

from __future__ import annotations

import numpy as np

import MNN

F, nn = MNN.expr, MNN.nn
INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""MobileNetV2's rows: factor, channels, blocks, stride of the first."""


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.linear(784, 512), nn.linear(512, 512), nn.linear(512, 10)

    def forward(self, x):
        return self.three(F.relu(self.two(F.relu(self.one(x)))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.conv(1, 20, 5), nn.conv(20, 50, 5)
        self.three, self.four = nn.linear(800, 500), nn.linear(500, 10)

    def forward(self, x):
        x = F.max_pool(F.relu(self.one(x)), [2, 2], [2, 2])
        x = F.max_pool(F.relu(self.two(x)), [2, 2], [2, 2])
        return self.four(F.relu(self.three(F.reshape(F.convert(x, F.NCHW), [0, -1]))))


class Residual(nn.Module):
    def __init__(self, given, made, stride):
        super().__init__()
        self.one, self.two = nn.conv(given, made, 3, stride, 1, bias=False), nn.conv(made, made, 3, 1, 1, bias=False)
        self.first, self.second, self.third = (nn.batch_norm(made, momentum=0.9) for _ in range(3))
        self.side = nn.conv(given, made, 1, stride, bias=False)
        self.plain = given == made and stride == 1

    def forward(self, x):
        y = self.second(self.two(F.relu(self.first(self.one(x)))))
        return F.relu(y + (x if self.plain else self.third(self.side(x))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.conv(3, 64, 7, 2, 3, bias=False), nn.batch_norm(64, momentum=0.9)
        self.count, given = 0, 64
        for made in (64, 128, 256, 512):
            for stride in (1 if made == 64 else 2, 1):
                setattr(self, f"block{self.count}", Residual(given, made, stride))
                given, self.count = made, self.count + 1
        self.last = nn.linear(512, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = F.max_pool(F.pad(x, np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32)), [3, 3], [2, 2])
        for i in range(self.count):
            x = getattr(self, f"block{i}")(x)
        return self.last(F.reduce_mean(F.convert(x, F.NCHW), [2, 3]))


class Inverted(nn.Module):
    """An inverted residual of MobileNetV2: wider by ``factor``, depthwise, narrow again."""

    def __init__(self, given, made, stride, factor):
        super().__init__()
        wide, self.plain = given * factor, stride == 1 and given == made
        self.widened = factor > 1
        if self.widened:
            self.widen, self.first = nn.conv(given, wide, 1, bias=False), nn.batch_norm(wide, momentum=0.9)
        self.depth = nn.conv(wide, wide, 3, stride, 1, depthwise=True, bias=False)
        self.narrow = nn.conv(wide, made, 1, bias=False)
        self.second, self.third = nn.batch_norm(wide, momentum=0.9), nn.batch_norm(made, momentum=0.9)

    def forward(self, x):
        y = F.relu6(self.first(self.widen(x))) if self.widened else x
        y = self.third(self.narrow(F.relu6(self.second(self.depth(y)))))
        return y + x if self.plain else y


class MobileNet(nn.Module):
    """MobileNetV2 (Sandler et al., 2018)."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.conv(3, 32, 3, 2, 1, bias=False), nn.batch_norm(32, momentum=0.9)
        self.count, given = 0, 32
        for factor, made, times, stride in INVERTED:
            for i in range(times):
                setattr(self, f"block{self.count}", Inverted(given, made, stride if i == 0 else 1, factor))
                given, self.count = made, self.count + 1
        self.wide, self.wide_norm = nn.conv(320, 1280, 1, bias=False), nn.batch_norm(1280, momentum=0.9)
        self.last = nn.linear(1280, 10)

    def forward(self, x):
        x = F.relu6(self.norm(self.stem(x)))
        for i in range(self.count):
            x = getattr(self, f"block{i}")(x)
        x = F.relu6(self.wide_norm(self.wide(x)))
        return self.last(F.reduce_mean(F.convert(x, F.NCHW), [2, 3]))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.between, self.heads = nn.layer_norm(width), nn.layer_norm(width), heads
        self.q, self.k, self.v, self.out = (nn.linear(width, width) for _ in range(4))
        self.up, self.down = nn.linear(width, 4 * width), nn.linear(4 * width, width)

    def forward(self, h):
        n = self.before(h)

        def parts(x):
            return F.transpose(F.reshape(x, [*h.shape[:2], self.heads, h.shape[2] // self.heads]), [0, 2, 1, 3])

        q, k, v = parts(self.q(n)), parts(self.k(n)), parts(self.v(n))
        score = F.matmul(q, k, False, True) * float((h.shape[2] // self.heads) ** -0.5)
        mixed = F.transpose(F.matmul(F.softmax(score, -1), v), [0, 2, 1, 3])
        h = h + self.out(F.reshape(mixed, h.shape))
        return h + self.down(F.gelu(self.up(self.between(h))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.last = nn.embedding(1000, 256), nn.linear(256, 10)
        for i in range(6):
            setattr(self, f"block{i}", Attention(256, 4))

    def forward(self, x):
        h = self.tokens(x)
        for i in range(6):
            h = getattr(self, f"block{i}")(h)
        return self.last(h)


NETWORKS = {
    "mlp": (Perceptron, (32, 784)),
    "lenet": (LeNet, (32, 1, 28, 28)),
    "transformer": (Transformer, (32, 64)),
    "resnet18": (ResNet, (32, 3, 96, 96)),
    "mobilenetv2": (MobileNet, (32, 3, 96, 96)),
}
