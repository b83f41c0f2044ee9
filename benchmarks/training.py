"""Steps of training against torch eager, turn by turn in one run: CPU seconds of a step, the least of all.

    python -m benchmarks.training [--only mlp,lenet] [--rounds 4] [--threads 1]

Batches of 32, fp32 (``high``), gradient descent with momentum. torch runs in the environment of the tests' exports.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from pathlib import Path

import numpy as np

import MNN
from tests import zoo
from tests.export_env import python

F, nn = MNN.expr, MNN.nn
STEPS = {"mlp": 20, "lenet": 10, "transformer": 2, "resnet18": 1}


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
        x = F.max_pool(x, [3, 3], [2, 2], F.Padding_Mode.CAFFE, [1, 1])
        for i in range(self.count):
            x = getattr(self, f"block{i}")(x)
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
}


class Own:
    """One network of ours, its program made by the first step."""

    def __init__(self, name: str, threads: int) -> None:
        from MNN.train.step import Steps

        make, shape = NETWORKS[name]
        rng = np.random.default_rng(0)
        words = len(shape) == 2 and name == "transformer"
        x = rng.integers(0, 1000, shape).astype(np.int32) if words else rng.normal(size=shape).astype(np.float32)
        model = make()
        self.steps = Steps(model, MNN.optim.SGD(model, 0.01, threads=threads), None)
        target = np.ones(shape if words else shape[:1], np.int32)
        self.batch = (
            [F.const(x, list(shape), dtype=F.int if words else F.float)],
            [F.const(target, list(target.shape), dtype=F.int)],
        )
        begun = time.perf_counter()
        self.steps.step(*self.batch)
        self.first = time.perf_counter() - begun

    def run(self, count: int) -> float:
        """The least CPU seconds of some steps."""
        times = []
        for _ in range(count):
            begun = time.process_time()
            self.steps.step(*self.batch)
            times.append(time.process_time() - begun)
        return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    driver = Path(__file__).with_name("training_torch.py")
    command = [str(python(zoo.cache_folder())), str(driver), str(options.threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        print("| network | this engine, ms | torch eager, ms | torch / this | first step, s |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for name in options.only.split(","):
            own = Own(name, options.threads)
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(own.run(STEPS[name]))
                peer.stdin.write(f"{name} {STEPS[name]}\n")
                peer.stdin.flush()
                theirs.append(float(peer.stdout.readline()))
            a, b = 1000 * min(ours), 1000 * min(theirs)
            print(f"| {name} | {a:.2f} | {b:.2f} | {b / a:.2f} | {own.first:.1f} |", flush=True)
        peer.stdin.close()


if __name__ == "__main__":
    main()
