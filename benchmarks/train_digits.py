"""Trains the small digit classifier that ``mnn demo`` runs: ``python -m benchmarks.train_digits``.

Data: the 1,797 hand-written digits of 8x8 pixels (0..16) that scikit-learn carries (Alpaydin and Kaynak 1998). Every
fifth picture is held out. The network is a 3-layer convolution net with batch norm; training shifts pictures by up to a
pixel and ends with an average of the last weights. Writes ``digits.onnx`` (float32, dynamic batch, input "image"
[batch, 1, 8, 8] in 0..1, output "probability" [batch, 10]) and ``digits_samples.npz`` (held-out pictures uint8
[40, 8, 8] in 0..16 and labels uint8 [40], four of each digit). Needs torch, onnx and scikit-learn; takes under a
minute, and gives the same network each time with the same torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from .export import write_onnx

FOLDER = Path(__file__).resolve().parents[1] / "src" / "MNN" / "assets"
EPOCHS, BATCH, SEED, LEAST_ACCURACY = 60, 64, 0, 0.98


class Digits(nn.Module):
    """Two 3x3 convolutions, a depthwise-separable one, global mean, linear: about 11,000 weights."""

    def __init__(self) -> None:
        super().__init__()

        def norm(cout: int, *layers: nn.Module) -> list[nn.Module]:
            return [*layers, nn.BatchNorm2d(cout), nn.ReLU()]

        self.features = nn.Sequential(
            *norm(16, nn.Conv2d(1, 16, 3, padding=1, bias=False)),
            *norm(32, nn.Conv2d(16, 32, 3, padding=1, bias=False)),
            nn.MaxPool2d(2),
            *norm(32, nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)),
            *norm(64, nn.Conv2d(32, 64, 1, bias=False)),
        )
        self.classify = nn.Linear(64 * 4, 10)

    def logits(self, image: torch.Tensor) -> torch.Tensor:
        return self.classify(functional.max_pool2d(self.features(image), 2).flatten(1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.logits(image).softmax(1)


def shifted(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each picture moved by -1, 0 or 1 pixels in both directions, zeros coming in."""
    padded = functional.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2), generator=generator)
    return torch.stack([padded[k, :, y : y + 8, x : x + 8] for k, (y, x) in enumerate(moves.tolist())])


def train(images: torch.Tensor, labels: torch.Tensor) -> Digits:
    """A trained network in evaluation mode."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the same sums in the same order each time
    generator = torch.Generator().manual_seed(SEED)
    model = Digits()
    steps = EPOCHS * -(-len(images) // BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images), generator=generator).split(BATCH):
            loss = functional.cross_entropy(
                model.logits(shifted(images[chosen], generator)), labels[chosen], label_smoothing=0.05
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().out
    pixels, digits = load_digits(return_X_y=True)
    pixels = pixels.reshape(-1, 8, 8).astype(np.uint8)
    held_out = np.arange(len(pixels)) % 5 == 0
    images = torch.from_numpy(pixels[:, None].astype(np.float32) / 16)
    labels = torch.from_numpy(digits)

    model = train(images[~held_out], labels[~held_out])
    with torch.no_grad():
        right = (model(images[held_out]).argmax(1) == labels[held_out]).numpy()
    accuracy = float(right.mean())
    print(f"held-out accuracy {accuracy:.4f} ({int(right.sum())} of {len(right)})")
    if accuracy < LEAST_ACCURACY:
        raise SystemExit(f"accuracy is below {LEAST_ACCURACY}; nothing written")

    axes = {"image": {0: "batch"}, "probability": {0: "batch"}}
    path = write_onnx(model, (images[:1],), folder / "digits.onnx", ["image"], ["probability"], axes)
    test_pixels, test_digits = pixels[held_out], digits[held_out]
    chosen = np.concatenate([np.flatnonzero(test_digits == d)[:4] for d in range(10)])
    samples = folder / "digits_samples.npz"
    np.savez_compressed(samples, images=test_pixels[chosen], labels=test_digits[chosen].astype(np.uint8))
    print(f"{path} {path.stat().st_size} bytes, {samples} {samples.stat().st_size} bytes")


if __name__ == "__main__":
    main()
