"""Records drawn programs of loops, choices and lists within each other, in every form that TensorFlow has for them.

    python -m tests.tensorflow.record_random_control OUT.zip [--programs N] [--seed S]

Runs where tensorflow is, as ``record.py`` does; ``python -m tests.tensorflow.loops_trial OUT.zip`` judges. A program
takes ``x[n, 3]``, ``n`` open in half of them. Its forms are in turn: a graph of TensorFlow 1 (Switch, Merge, Enter,
Exit), a SavedModel, a frozen graph with its functions, and one that is lowered.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.tensorflow.record import _packed, _write

v1, raw = tf.compat.v1, tf.raw_ops
WIDTH = 3
FORMS = ("graph", "saved", "functions", "lowered")
DEPTH = 3


class Program:
    """Draws steps from ``[n, WIDTH]`` to the same; those within loops and branches are drawn from seeds of their own,
    since TensorFlow may trace them more than once."""

    def __init__(self, seed: int, lists: bool) -> None:
        self.rng, self.lists = random.Random(seed), lists
        self.kinds: dict[str, Callable[[random.Random, Any, int], Any]] = {
            k.removeprefix("_do_"): getattr(self, k) for k in dir(self) if k.startswith("_do_")
        }

    def __call__(self, x: Any) -> Any:
        y = x
        for _ in range(self.rng.randint(1, 3)):
            y = self.step(self.rng, y, DEPTH)
        return tf.identity(y, name="out")

    def step(self, r: random.Random, x: Any, depth: int) -> Any:
        kinds = ["plain"] * 4 + (sorted(self.kinds) if depth else [])
        return tf.ensure_shape(self.kinds[r.choice(kinds)](r, x, depth), x.shape)

    def later(self, r: random.Random, depth: int) -> Callable[[Any], Any]:
        """A step within a loop or branch."""
        seed = r.randint(0, 10**6)
        return lambda x: self.step(random.Random(seed), x, depth - 1)

    def count(self, r: random.Random, x: Any) -> Any:
        """How many turns: a constant, or what sizes or numbers say."""
        kind, n = r.randint(0, 3), r.randint(1, 5)
        if kind == 0:
            return tf.shape(x)[0]
        if kind == 1:
            return tf.reduce_sum(tf.cast(x[:, 0] > 0, tf.int32)) + 1
        return tf.constant(n)

    def flag(self, r: random.Random, x: Any) -> Any:
        kind = r.randint(0, 2)
        if kind == 0:
            return tf.equal(tf.shape(x)[0] % 2, 0)
        return tf.reduce_sum(x) > 0 if kind == 1 else tf.reduce_max(x) < 0.5

    def _do_plain(self, r: random.Random, x: Any, depth: int) -> Any:
        c = round(r.uniform(-1, 1), 2)
        weights = np.random.default_rng(r.randint(0, 99)).normal(0, 0.5, (WIDTH, WIDTH)).astype(np.float32)
        return r.choice(
            (lambda: tf.tanh(x), lambda: x * c + 0.1, lambda: tf.nn.relu(x) - c, lambda: tf.cumsum(x, 0) * 0.3,
             lambda: x + tf.reduce_mean(x, 0, keepdims=True), lambda: tf.matmul(x, weights))
        )()  # fmt: skip

    def _do_loop(self, r: random.Random, x: Any, depth: int) -> Any:
        """Two variables, which may change places, and one that stays."""
        n, inner, swap, stays = self.count(r, x), self.later(r, depth), r.random() < 0.5, tf.reduce_max(x, 0)

        def body(i: Any, a: Any, b: Any, s: Any) -> Any:
            made = inner(a) + 0.1 * s
            return (i + 1, b, made, s) if swap else (i + 1, made + 0.1 * b, a, s)

        found = v1.while_loop(
            lambda i, a, b, s: tf.logical_and(i < n, tf.reduce_sum(a) < 50), body, [0, x, x / 2, stays]
        )
        return found[1] - found[2] if r.random() < 0.5 else found[1]

    def _do_most(self, r: random.Random, x: Any, depth: int) -> Any:
        inner, n = self.later(r, 1), self.count(r, x)
        return v1.while_loop(
            lambda v: tf.reduce_max(tf.abs(v)) > 0.05, lambda v: inner(v) * 0.8, [x], maximum_iterations=n
        )

    def _do_choice(self, r: random.Random, x: Any, depth: int) -> Any:
        yes, no = self.later(r, depth), self.later(r, depth)
        return v1.cond(self.flag(r, x), lambda: yes(x), (lambda: no(x)) if r.random() < 0.7 else lambda: x)

    def _do_case(self, r: random.Random, x: Any, depth: int) -> Any:
        first, last = self.later(r, depth), self.later(r, depth)
        number = tf.reduce_sum(tf.cast(x > 0, tf.int32)) % 4
        return tf.switch_case(number, [lambda: first(x), lambda: tf.zeros_like(x), lambda: last(x)])

    def _do_rows(self, r: random.Random, x: Any, depth: int) -> Any:
        n, back = tf.shape(x)[0], r.random() < 0.3
        rows = tf.TensorArray(tf.float32, size=n, clear_after_read=False).unstack(x)
        out = tf.TensorArray(tf.float32, size=n, infer_shape=r.random() < 0.7)
        _, out = v1.while_loop(
            lambda i, _: i < n, lambda i, o: (i + 1, o.write(i, rows.read(n - 1 - i if back else i) * 0.7)), [0, out]
        )
        return out.stack()

    def _do_array(self, r: random.Random, x: Any, depth: int) -> Any:
        """Whole values written in each turn, then read in one of three ways."""
        n, inner, grows = self.count(r, x), self.later(r, depth), r.random() < 0.5
        shape = r.choice([None, tf.TensorShape([None, WIDTH])])
        given = tf.TensorArray(tf.float32, size=0 if grows else n, dynamic_size=grows, element_shape=shape)

        def body(i: Any, v: Any, o: Any) -> Any:
            made = tf.ensure_shape(inner(v), v.shape)
            return i + 1, made, o.write(i, made)

        _, v, out = v1.while_loop(lambda i, *_: i < n, body, [0, x, given])
        kind = r.randint(0, 2)
        if kind == 0:
            return tf.reduce_mean(tf.reshape(out.stack(), tf.stack([-1, tf.shape(x)[0], WIDTH])), 0)
        if kind == 1:
            return tf.reshape(out.concat(), [-1, WIDTH])[: tf.shape(x)[0]]
        return tf.reshape(out.read(out.size() - 1), [-1, WIDTH]) + v

    def _do_before(self, r: random.Random, x: Any, depth: int) -> Any:
        """Each element from the one before, maybe by a choice."""
        n, choice = self.count(r, x), r.random() < 0.5
        made = tf.TensorArray(tf.float32, size=n + 1, element_shape=[WIDTH], clear_after_read=False)

        def body(i: Any, o: Any) -> Any:
            v = o.read(i)
            new = v1.cond(tf.reduce_sum(v) > 0, lambda: v / 2, lambda: v + 1) if choice else tf.tanh(v + 0.3)
            return i + 1, o.write(i + 1, new)

        return x + tf.reduce_sum(v1.while_loop(lambda i, _: i < n, body, [0, made.write(0, x[0])])[1].stack(), 0)

    def _do_longer(self, r: random.Random, x: Any, depth: int) -> Any:
        n, sizes = self.count(r, x), [tf.TensorShape([]), tf.TensorShape([None, WIDTH])]
        body = lambda i, v: (i + 1, tf.concat([v, v[-1:] / 2], 0))  # noqa: E731
        return v1.while_loop(lambda i, _: i < n, body, [0, x], shape_invariants=sizes)[1][-tf.shape(x)[0] :]

    def _do_pushed(self, r: random.Random, x: Any, depth: int) -> Any:
        if not self.lists:
            return self._do_plain(r, x, depth)
        n, element = self.count(r, x), {"element_shape": tf.constant([WIDTH]), "element_dtype": tf.float32}
        held = raw.EmptyTensorList(
            element_shape=tf.constant(r.choice([[WIDTH], [-1], -1])), max_num_elements=-1, element_dtype=tf.float32
        )
        push = lambda i, h: raw.TensorListPushBack(input_handle=h, tensor=x[0] * tf.cast(i + 1, tf.float32))  # noqa: E731
        _, held = tf.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, push(i, h)), [0, held])
        kind = r.randint(0, 2)
        if kind == 0:
            return x + tf.reduce_sum(raw.TensorListStack(input_handle=held, **element), 0)
        if kind == 1:
            return x + raw.TensorListPopBack(input_handle=held, **element)[1]
        last = raw.TensorListLength(input_handle=held) - 1
        return x + raw.TensorListGetItem(input_handle=held, index=last, **element)

    def _do_fold(self, r: random.Random, x: Any, depth: int) -> Any:
        return r.choice(
            (lambda: x / 2 + tf.scan(lambda a, b: a / 2 + b, x), lambda: x + tf.foldr(lambda a, b: tf.tanh(a + b), x),
             lambda: tf.map_fn(lambda t: tf.nn.softmax(t) + tf.reduce_sum(t) / 9, x))
        )()  # fmt: skip


def written(form: str, seed: int, folder: Path) -> dict[str, np.ndarray]:
    """Writes a program in a form, and gives what it was given and answers."""
    rng, program = np.random.default_rng(seed), Program(seed, form != "graph")
    x = rng.normal(0, 1, (int(rng.integers(2, 6)), WIDTH)).astype(np.float32)
    sizes = [None if rng.integers(2) else len(x), WIDTH]
    if form == "graph":
        v1.disable_control_flow_v2()
        try:
            with tf.Graph().as_default() as graph, v1.Session() as session:
                given = v1.placeholder(tf.float32, sizes, name="x")
                answer = session.run(program(given), {given: x})
                used = v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["out"])
        finally:
            v1.enable_control_flow_v2()
        (folder / "frozen.pb").write_bytes(used.SerializeToString())
        return {"in0": x, "out0": answer}
    module = tf.Module()
    module.f = tf.function(program, autograph=False, input_signature=[tf.TensorSpec(sizes, tf.float32, name="x")])
    made = module.f.get_concrete_function()
    answer = made(tf.constant(x)).numpy()
    if form == "saved":
        tf.saved_model.save(module, str(folder), signatures=made)
    else:
        frozen = convert_variables_to_constants_v2(made, lower_control_flow=form == "lowered")
        (folder / "frozen.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    return {"in0": x, "out0": answer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with zipfile.ZipFile(chosen.target, "w") as archive:
        for seed in range(chosen.seed, chosen.seed + chosen.programs):
            form = FORMS[seed % len(FORMS)]
            try:
                with tempfile.TemporaryDirectory() as root:
                    folder = Path(root)
                    answers = written(form, seed, folder)
                    if not all(np.isfinite(a).all() for a in answers.values()):
                        continue
                    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "fingerprint.pb"):
                        _write(archive, f"{seed} {form}/{path.relative_to(folder).as_posix()}", path.read_bytes())
                    _write(archive, f"{seed} {form}/answers.npz", _packed(answers))
            except (ValueError, tf.errors.InvalidArgumentError) as error:
                print(seed, form, str(error)[:150].replace("\n", " "))


if __name__ == "__main__":
    main()
