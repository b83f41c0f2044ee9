"""PyMNN's own unit tests and examples, unchanged: ``python -m tests.api.pymnn_own CHECKOUT [NAME ...]``.

CHECKOUT is a copy of the official repository (``alibaba/MNN`` at ``COMMIT``, of which the numbers in docs/coming-
from-pymnn.md are). Nothing of it is copied into this one, and continuous integration, which cannot fetch it, runs
programs of our own that do the same (``tests/train/test_pymnn_way.py``, ``tests/api``). This command wants torch and
opencv-python beside what the package needs. Models and data that the examples expect are made here: networks of the
names and shapes that they ask for, pictures of two colours, and ten patterns for digits.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import MNN

COMMIT = "4d40bdbd7efb73a58383bb5da867a6f41eb1776e"
F, nn = MNN.expr, MNN.nn
UNCHECKED = {
    "gpu_io_interface": "wants torch on a CUDA card",
    "grad_test": "calls nn.grad, which PyMNN 3.6.1 does not have either",
}
"""Examples that are not run, with the reason."""


@dataclass(frozen=True)
class Example:
    """One program: its folder under ``pymnn/examples``, its arguments, and a text that a good run prints."""

    folder: str
    arguments: tuple[str, ...] = ()
    prints: str = ""
    check: Callable[[Path], None] = lambda _: None


def _classifier() -> None:
    """A stand-in for MobileNet: pictures to 1001 shares, named as the examples name its ends."""
    x = F.placeholder([1, 3, 224, 224], F.NCHW)
    x.name = "input"
    y = F.avg_pool(F.relu(nn.conv(3, 1001, [8, 8], stride=[32, 32])(x)), [7, 7], [7, 7])
    y = F.softmax(F.reshape(F.convert(y, F.NCHW), [1, 1001]), 1)
    y.name = "MobilenetV1/Predictions/Reshape_1"
    F.save([y], "mobilenet.mnn")


def _extractor() -> None:
    """One for its features: 1280 of each picture."""
    x = F.placeholder([1, 3, 224, 224], F.NC4HW4)
    x.name = "input"
    y = F.avg_pool(F.relu(nn.conv(3, 1280, [8, 8], stride=[32, 32])(x)), [7, 7], [7, 7])
    y.name = "MobilenetV2/Logits/AvgPool"
    F.save([y], "features.mnn")


def _pictures() -> None:
    """Red and blue noise with their lists."""
    rng = np.random.default_rng(0)
    for kind, count in (("train", 64), ("test", 20)):
        Path(kind).mkdir()
        lines = []
        for i in range(count):
            colour = np.roll([200, 60, 60], 2 * (i % 2))
            pixels = np.clip(rng.normal(colour, 30, (240, 240, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(f"{kind}/{i}.png")
            lines.append(f"{i}.png {i % 2}\n")
        Path(f"{kind}.txt").write_text("".join(lines))
    Image.open("train/0.png").save("picture.jpg")


def _digits() -> None:
    """A module ``mnist``: digits of 28 x 28 in as many copies as the example counts."""
    Path("mnist.py").write_text(
        "import numpy as np\n"
        "rng = np.random.default_rng(0)\n"
        "faces = rng.integers(0, 2, (10, 7, 7)) * 255\n"
        "def images(labels):\n"
        "    big = np.kron(faces, np.ones((4, 4)))[labels]\n"
        "    return np.clip(big + rng.normal(0, 40, big.shape), 0, 255).astype(np.uint8)\n"
        "train = rng.integers(0, 10, 60000).astype(np.uint8)\n"
        "test = rng.integers(0, 10, 10000).astype(np.uint8)\n"
        "train_labels, test_labels = (lambda: train), (lambda: test)\n"
        "train_images, test_images = (lambda: images(train)), (lambda: images(test))\n"
    )


def _loss() -> None:
    """A file with a weight and the loss that depends on it."""
    x, weight = F.placeholder([2]), F.const([3.0, -1.0], [2])
    x.name, weight.name = "x", "weight"
    F.lazy_eval(True)
    loss = F.reduce_sum(F.square(x * weight), [0], True)
    loss.name = "loss"
    F.save([loss], "loss.mnn")
    F.lazy_eval(False)


def _slopes(folder: Path) -> None:
    found = MNN.load(folder / "slopes.mnn").run({"x": np.float32([2, 5])})
    np.testing.assert_allclose(found["grad::weight"], [24, -50], 1e-6)


def _update(folder: Path) -> None:
    model = MNN.load(folder / "update.mnn")
    for _ in range(3):
        model.run({"month_diff": np.float32([1]), "lr_rate": np.float32([1e-12])})
    assert 0 < model.state["rate"][0] < 0.001


EXAMPLES = {
    "mobilenet_demo": Example("MNNEngineDemo", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "mobilenet_demo_2": Example("MNNEngineDemo", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "gpu_session_demo": Example("MNNEngineDemo", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "MNNExpr/mobilenet_demo": Example("MNNExpr", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "mnn_numpy_cv_demo": Example("MNNExpr", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "gpu_express_demo": Example("MNNExpr", ("mobilenet.mnn", "picture.jpg"), "output belong to class: "),
    "train_mnist": Example("MNNTrain/mnist", (), "test acc:  100.0 %"),
    "mobilenet_transfer": Example(
        "MNNTrain/mobilenet_finetune",
        ("--model_file", "features.mnn", "--train_image_folder", "train/", "--train_txt", "train.txt",
         "--test_image_folder", "test/", "--test_txt", "test.txt", "--num_classes", "2"), "test acc:  100.0 %",
    ),
    "test_save": Example("MNNTrain/module_save", (), "0.0004"),
    "solve_equation": Example("MNNTrain/simple", (), "12439.1"),
    "make_solve_equation_graph": Example("MNNTrain/simple", (), "", _update),
    "grad_loss": Example("MNNTrain/simple", ("loss.mnn", "slopes.mnn"), "", _slopes),
}  # fmt: skip


def examples(checkout: Path, wanted: list[str]) -> int:
    """Runs the examples in a folder of their data; how many fail."""
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        before = Path.cwd()
        os.chdir(made)
        nn.seed(2)
        for make in (_classifier, _extractor, _pictures, _digits, _loss):
            make()
        for name, example in EXAMPLES.items():
            if wanted and name not in wanted:
                continue
            program = checkout / "pymnn" / "examples" / example.folder / f"{name.rpartition('/')[2]}.py"
            path = os.pathsep.join([made, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run(
                [sys.executable, str(program), *example.arguments], capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
            wrong = done.stderr[-800:] if done.returncode else ""
            if not wrong and example.prints not in done.stdout:
                wrong = f"printed no {example.prints!r}: {done.stdout[-300:]}"
            if not wrong:
                try:
                    example.check(Path(made))
                except AssertionError as error:
                    wrong = str(error) or "what it wrote is wrong"
            failed += bool(wrong)
            print(f"{'failed' if wrong else 'ran'}: {name} {wrong}", flush=True)
        os.chdir(before)
    for name, reason in UNCHECKED.items():
        print(f"not run: {name}, which {reason}")
    return failed


def unit_tests(checkout: Path) -> int:
    """Runs the unit tests in a folder that looks like theirs, as they are and without their marks to skip some; how
    many fail as they are."""
    source = (checkout / "pymnn" / "test" / "unit_test.py").read_text(encoding="utf-8")
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "pymnn" / "test"
        folder.mkdir(parents=True)
        (Path(made) / "resource").symlink_to(checkout / "resource")
        for name, text in (
            ("unit_test.py", source),
            ("all_tests.py", re.sub(r"(?m)^ *@unittest\.skip.*$", "", source)),
        ):
            (folder / name).write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
            bad = re.findall(r"^(?:FAIL|ERROR): (\w+)", done.stderr, re.MULTILINE)
            ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
            skipped = re.search(r"skipped=(\d+)", done.stderr)
            print(
                f"{name}: ran {ran[1] if ran else 'nothing'}, skipped {skipped[1] if skipped else 0}, failed {bad}",
                flush=True,
            )
            if name == "unit_test.py":
                failed += len(bad) + (ran is None)
                if ran is None:
                    print(done.stderr[-800:])
    return failed


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "pymnn").is_dir():
        print(__doc__)
        return 2
    checkout, wanted = Path(sys.argv[1]).resolve(), sys.argv[2:]
    failed = 0 if wanted else unit_tests(checkout)
    return 1 if failed + examples(checkout, wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
