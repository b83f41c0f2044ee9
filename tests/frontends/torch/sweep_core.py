"""Counts torch's core ATen operators: calls of each, drawn from torch's samples of all operators.

Runs in an environment that has torch, ``expecttest`` and this package's dependencies:
``python -m tests.frontends.torch.sweep_core OUT.jsonl [--only NAMES] [--types float32,int64] [--cases 3]
[--ways pt2,pt,script] [--seed 0] [--kernels]``. Samples of every operator in torch's database run through torch's
decompositions to core operators; some of the calls that each core operator then got, for each type of numbers, become
programs of one call: exported, traced and scripted. It takes half an hour, so no test runs it; it ends with a table.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import linecache
import random
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.core_operators import core_operators
from tests.frontends.torch.exporting import Late, graph_of, judged, numbers
from tests.frontends.torch.near import compare
from tests.frontends.torch.sweep_operators import DRAWN, SECONDS, TYPES

Calls = dict[tuple[str, str], list[tuple[Any, Any]]]
"""Arguments by position and by name of the calls of (operator, type of its first tensor)."""
COUNT = itertools.count()
FIRST, SAMPLES = 40, 4
"""Of the first so many samples of an operator so many are run."""
LARGEST = 20_000
"""Numbers of all the tensors of a call; calls of more are left out."""


def copied(x: Any) -> Any:
    return pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, x)


def like(x: Any) -> Any:
    """What makes an argument another form of a call: a tensor's sizes, type and strides, a number itself."""
    return (x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else x


class Core(TorchDispatchMode):
    """Runs calls as torch's decompositions make them of core operators, and keeps some of those."""

    def __init__(self, cases: int, seed: int) -> None:
        super().__init__()
        self.table = torch.export.default_decompositions()
        self.rng, self.most = random.Random(seed), cases
        self.kept: Calls = defaultdict(list)
        self.seen: Counter[tuple[str, str]] = Counter()
        self.forms: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.core in func.tags:
            self.note(str(func).removeprefix("aten."), args, kwargs)
        elif func in self.table:
            with self:
                found = self.table[func](*args, **kwargs)
            if found is not NotImplemented:
                return found
        return func(*args, **kwargs)

    def note(self, name: str, args: Any, kwargs: Any) -> None:
        """Keeps as many different calls as asked for, each as likely as any other."""
        tensors = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
        form = str((name, pytree.tree_map(like, (args, kwargs))))
        plain = all(t.layout is torch.strided and t.device.type == "cpu" for t in tensors)
        if not plain or form in self.forms or sum(t.numel() for t in tensors) > LARGEST:
            return
        self.forms.add(form)
        key = name, str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
        self.seen[key] += 1
        at = len(self.kept[key]) if len(self.kept[key]) < self.most else self.rng.randrange(self.seen[key])
        if at < self.most:
            self.kept[key][at : at + 1] = [copied((args, kwargs))]


def recorded(options: argparse.Namespace) -> Calls:
    """Calls of core operators that torch's samples of all operators come to."""
    mode = Core(options.cases, options.seed)
    for operator in op_db[:: options.every]:
        for text in options.types.split(","):
            dtype = getattr(torch, text)
            if dtype not in operator.dtypes:
                continue
            signal.alarm(SECONDS // 2)
            try:
                torch.manual_seed(options.seed)
                drawn = list(itertools.islice(operator.sample_inputs("cpu", dtype), FIRST))
                for sample in mode.rng.sample(drawn, min(SAMPLES, len(drawn))):
                    with mode:
                        operator.op(sample.input, *sample.args, **sample.kwargs)
            except Exception as error:  # noqa: BLE001
                print(f"{operator.name} {text}: {type(error).__name__}: {error}"[:160], file=sys.stderr)
            signal.alarm(0)
    return mode.kept


SIZES = {
    "sym_size.int": "x0.size(1)",
    "sym_numel.default": "x0.numel()",
    "sym_stride.int": "x0.stride(0)",
    "sym_storage_offset.default": "x0.storage_offset()",
    "sym_is_contiguous.default": "x0.is_contiguous()",
}
"""Core operators of sizes, which programs of open sizes call."""
TIED = {"sort.default": 1, "topk.default": 2}
"""Operators that say where their results were, equal ones in any order; which argument is the axis."""
FIRST_ALONE = ("_embedding_bag.default", "_native_batch_norm_legit_no_training.default")
"""Operators whose other results are for training."""


def word(x: Any, names: list[str]) -> str:
    """An argument as a program has it; tensors get names of the inputs, complex ones come in pairs of numbers."""
    if isinstance(x, torch.Tensor):
        names.append(f"x{len(names)}")
        return f"torch.view_as_complex({names[-1]})" if x.is_complex() else names[-1]
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(word(v, names) for v in x)}]"
    if isinstance(x, (complex, float)) and not np.isfinite(x):
        return f'{type(x).__name__}("{x}")'
    return (
        "None"
        if isinstance(x, (torch.device, torch.layout, torch.memory_format))
        else (repr(x) if isinstance(x, str) else str(x))
    )


def text(name: str, call: tuple[Any, Any], result: Any, way: str) -> str:
    """A module of one call, as Python and TorchScript read it."""
    names: list[str] = []
    given = [*(word(v, names) for v in call[0]), *(f"{k}={word(v, names)}" for k, v in call[1].items())]
    called = name.split(".")[0] if way == "script" else name
    found = f"torch.ops.aten.{called}({', '.join(given)})"
    if name in FIRST_ALONE:
        found += "[0]"
    elif name in SIZES:
        names, found = ["x0"], f"torch.full([2], {SIZES[name]})"
    elif any(isinstance(v, torch.Tensor) and v.is_complex() for v in pytree.tree_leaves(result)):
        found = (
            f"torch.view_as_real({found})"
            if isinstance(result, torch.Tensor)
            else f"[torch.view_as_real(v) for v in {found}]"
        )
    elif not isinstance(result, (torch.Tensor, list, tuple)):
        found = f"torch.tensor({found})"
    taken = ", ".join(f"{n}: torch.Tensor" for n in names or ["x0"])
    return f"class Written(torch.nn.Module):\n    def forward(self, {taken}):\n        return {found}\n"


def module_of(source: str) -> torch.nn.Module:
    file = f"<program {next(COUNT)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # where TorchScript reads it
    held: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(source, file, "exec"), held)
    return held["Written"]()  # type: ignore[no-any-return]


def answer(module: torch.nn.Module, way: str, tensors: list[torch.Tensor]) -> Any:
    """Torch's own, of the form in which the program is judged."""
    try:
        return (torch.jit.script(module) if way == "script" else module)(*tensors)
    except RuntimeError as error:
        raise RuntimeError(f"torch: {error}") from error


@judged
def outcome(way: str, name: str, call: tuple[Any, Any], config: Config) -> tuple[str, str]:
    """``right``, ``refused``, ``wrong``, ``broken`` (an error that is none of ours) or ``torch``, and what is said."""
    tensors = [v for v in pytree.tree_leaves(call) if isinstance(v, torch.Tensor)] or [torch.zeros(3, 4)]
    tensors = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    result = None if name in SIZES else core_operators()[name](*copied(call)[0], **copied(call)[1])
    module = module_of(text(name, call, result, way))
    wanted = pytree.tree_leaves(answer(module, way, copied(tensors)))
    sizes = (dict.fromkeys((0, 1), torch.export.Dim.AUTO),) if name in SIZES and way == "pt2" else None
    graph = graph_of(way, module, copied(tensors), sizes)
    feeds = dict(zip((v.name for v in graph.inputs), map(numbers, tensors), strict=True))
    found = list(Session(graph, config).run(feeds).values())
    if len(found) != len(wanted):
        return "wrong", f"{len(found)} results for {len(wanted)}"
    for i, (have, want) in enumerate(zip(found, map(numbers, wanted), strict=True)):
        if name in TIED and i == 1 and want.ndim:
            axis = call[0][TIED[name]] if len(call[0]) > TIED[name] else call[1].get("dim", -1)
            have, want = (np.take_along_axis(numbers(tensors[0]), v, axis) for v in (have, want))
        drawn = any(part in name for part in DRAWN)
        said = compare(np.zeros_like(have), np.zeros_like(want)) if drawn else compare(np.asarray(have), want)
        if said:
            return "wrong", f"result {i}: {said}"
    return "right", ""


def written_down() -> Calls:
    """Calls of operators that no sample comes to: torch's Python takes other overloads of them."""
    x, numbers_ = torch.randn(2, 3, 5, 6), torch.randint(-9, 9, (3, 4))
    calls: dict[str, list[tuple[Any, ...]]] = {
        "atan2.out": [(x, x.flip(0))],
        "adaptive_avg_pool1d.default": [(x[0], [2]), (x[0], [4])],
        "avg_pool1d.default": [(x[0], [3], [2], [1]), (x[0], [2], [], [0], True), (x[0], [3], [1], [1], False, False)],
        "bitwise_and.Scalar": [(numbers_, 5), (numbers_.int(), -3), (numbers_ > 0, True)],
        "bitwise_or.Scalar": [(numbers_, 5), (numbers_.int(), -3), (numbers_ > 0, True)],
        "bitwise_xor.Scalar": [(numbers_, 5), (numbers_.int(), -3), (numbers_ > 0, True)],
        "col2im.default": [(torch.randn(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])],
        "div.Scalar_mode": [(x, 0.7), (numbers_, 3), (numbers_, 2.5), (x.half(), 1.5)],
        "native_dropout.default": [(x, 0.5, False), (x.half(), 0.5, False), (x, 0.0, True)],
        "randperm.default": [(7,), (1,)],
        "reflection_pad3d.default": [(x, [2, 1, 0, 3, 1, 1]), (x.half(), [-1, 1, 2, 2, 0, 1])],
        "upsample_bilinear2d.vec": [(x, [7, 4], True, None), (x, None, False, [2.0, 1.5]), (x, [3, 9], False, None)],
        "upsample_nearest2d.vec": [(x, [7, 4], None), (x, None, [2.0, 1.5]), (x.half(), [3, 9], None)],
        "var.dim": [(x, [1]), (x, [0, 2], False, True), (x, None, True)],
        "_embedding_bag.default": [
            (x[0, 0], torch.tensor([1, 0, 4, 4]), torch.tensor([0, 2]), False, mode) for mode in (0, 1, 2)
        ],
        "_native_batch_norm_legit_no_training.default": [
            (y, y[0, :, 0, 0], None, y[1, :, 0, 0], y[1, :, 1, 1].abs(), 0.1, 1e-3) for y in (x, x.bfloat16())
        ],
    }  # fmt: skip
    found: Calls = {(name, ""): [(args, {}) for args in listed] for name, listed in calls.items()}
    found["div.Scalar_mode", ""] = [
        (args, {"rounding_mode": mode}) for args in calls["div.Scalar_mode"] for mode in (None, "floor", "trunc")
    ]
    found["atan2.out", ""] = [(args, {"out": torch.empty_like(x)}) for args in calls["atan2.out"]]
    return {**found, **{(name, ""): [((), {})] for name in SIZES}}


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, int, tuple[Any, Any]]]:
    only = set(options.only.split(",")) if options.only else None
    kept, operators = recorded(options), core_operators()
    reached = {name for name, _ in kept}
    kept.update({key: calls for key, calls in written_down().items() if key[0] not in reached})
    for (name, dtype), calls in sorted(kept.items()):
        if name in operators and (not only or name in only):
            for i, call in enumerate(calls):
                yield name, dtype, i, call


def table(path: Path, operators: list[str]) -> str:
    """What became of each core operator: right where all its calls are, else the worst of them."""
    said: dict[str, dict[str, list[str]]] = {n: defaultdict(list) for n in operators}
    total: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        name, dtype, i, way, kind, text = json.loads(line)
        total[kind] += 1
        said[name][kind].append(f"{dtype}.{i}.{way}: {text}")
    verdicts: dict[str, list[str]] = defaultdict(list)
    lines = [f"calls: {dict(total)}"]
    for name in operators:
        kind = next(
            (k for k in ("broken", "wrong", "late", "refused", "right", "torch") if said[name].get(k)), "no call"
        )
        verdicts[kind].append(name)
        if kind != "right":
            counts = {k: len(v) for k, v in said[name].items()}
            lines.append(f"{kind} {name} {counts}: {said[name].get(kind, [''])[0][:300]}")
    return "\n".join([*lines, f"operators: { {k: len(v) for k, v in verdicts.items()} }"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(inspect.getdoc(sys.modules[__name__]) or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default=TYPES.replace("float64", "int32"))
    parser.add_argument("--cases", type=int, default=3, help="calls of an operator with a type of numbers")
    parser.add_argument("--ways", default="pt2,pt,script")
    parser.add_argument("--every", type=int, default=1, help="take samples of one operator of so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", action="store_true", help="compiled kernels, not the reference implementation")
    parser.add_argument("--table", action="store_true", help="of what OUT holds already")
    options = parser.parse_args()
    if options.table:
        print(table(options.out, list(core_operators())))
        return
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)

    def late(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    config = Config(reference=not options.kernels, precision="high")
    with options.out.open("a", encoding="utf-8") as file:
        for name, dtype, i, call in cases(options):
            for way in options.ways.split(","):
                signal.alarm(SECONDS)
                kind, said = outcome(way, name, call, config)
                signal.alarm(0)
                file.write(json.dumps([name, dtype, i, way, kind, said[:600]]) + "\n")
                file.flush()
    print(table(options.out, list(core_operators())))


if __name__ == "__main__":
    main()
