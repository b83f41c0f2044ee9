"""The side of torch of :mod:`benchmarks.training`, with the networks of :mod:`benchmarks.training_networks`.

python -m benchmarks.training_torch eager|compiled NETWORK THREADS high|low

low: forward by autocast to bf16.
"""

import sys

import torch
from torch import nn

from benchmarks.training_turns import Memory, serve

INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class Residual(nn.Module):
    def __init__(self, given, made, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU(),
            nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made),
        )  # fmt: skip
        self.side = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.plain = given == made and stride == 1

    def forward(self, x):
        return torch.relu(self.body(x) + (x if self.plain else self.side(x)))


class Inverted(nn.Module):
    def __init__(self, given, made, stride, factor):
        super().__init__()
        wide = given * factor
        layers = [nn.Conv2d(given, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()] if factor > 1 else []
        self.body = nn.Sequential(
            *layers, nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, made, 1, bias=False), nn.BatchNorm2d(made),
        )  # fmt: skip
        self.plain = stride == 1 and given == made

    def forward(self, x):
        return self.body(x) + x if self.plain else self.body(x)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.between, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(3)]), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h):
        n = self.before(h)
        q, k, v = (f(n).reshape(*h.shape[:2], self.heads, -1).transpose(1, 2) for f in self.qkv)
        score = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        h = h + self.out((torch.softmax(score, -1) @ v).transpose(1, 2).reshape(h.shape))
        return h + self.down(nn.functional.gelu(self.up(self.between(h))))


def network(name):
    """A network, its input, and how many classes it tells apart."""
    if name == "mlp":
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        return net, torch.randn(32, 784)
    if name == "lenet":
        net = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
        )  # fmt: skip
        return net, torch.randn(32, 1, 28, 28)
    if name == "resnet18":
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        given = 64
        for made in (64, 128, 256, 512):
            layers += [Residual(given, made, 1 if made == 64 else 2), Residual(made, made, 1)]
            given = made
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
        return net, torch.randn(32, 3, 96, 96)
    if name == "mobilenetv2":
        layers, given = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
        for factor, made, times, stride in INVERTED:
            for i in range(times):
                layers.append(Inverted(given, made, stride if i == 0 else 1, factor))
                given = made
        layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))
        return net, torch.randn(32, 3, 96, 96)
    net = nn.Sequential(nn.Embedding(1000, 256), *[Attention(256, 4) for _ in range(6)], nn.Linear(256, 10))
    return net, torch.randint(0, 1000, (32, 64))


def main():
    mode, name, threads, low = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "low"
    torch.set_num_threads(threads)
    memory = Memory()
    net, x = network(name)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    run = torch.compile(net) if mode == "compiled" else net
    target = torch.randint(0, 10, (x.numel() if name == "transformer" else len(x),))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            y = run(x)
        loss = nn.functional.cross_entropy(y.float().reshape(-1, 10), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    serve(step, memory)


if __name__ == "__main__":
    main()
