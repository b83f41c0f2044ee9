"""``MNN.cv`` beside OpenCV and PyMNN: ``python -m benchmarks.pictures [--publish]``.

Every case runs in all three in turns, in processes of their own that stay, on the same noise; the least time of all
turns counts. ``--publish`` writes ``docs/pictures.md``; ``--further`` measures other functions, beside OpenCV alone.
The libraries are in the environment ``pictures`` of :mod:`benchmarks.setup_peers`; ``--python`` names another one's
interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .peers.pictures import KINDS, SIZES, names
from .records import machine
from .setup_peers import REPOSITORY, interpreter, work_folder

PAGE = REPOSITORY / "docs" / "pictures.md"


class Worker:
    """A library in a process of its own."""

    def __init__(self, python: Path | str, library: str, threads: int) -> None:
        command = [str(python), "-m", "benchmarks.peers.pictures", library, str(threads)]
        kept = {name: value for name, value in os.environ.items() if library == "ours" or name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return dict(json.loads(self._process.stdout.readline() or '{"error": "it ended"}'))
        except BrokenPipeError:
            return {"error": "it ended"}

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Row(NamedTuple):
    name: str
    size: str
    kind: str
    threads: int
    ours: float
    opencv: float
    pymnn: float | None
    apart: float
    """The largest difference from OpenCV."""

    @property
    def ratio(self) -> float:
        return min(t for t in (self.opencv, self.pymnn) if t is not None) / self.ours


def measure(
    workers: dict[str, Worker], size: str, kind: str, name: str, threads: int, seconds: float, clock: str = "wall"
) -> Row | None:
    """One case in all libraries in turns; None, and a word about it, where ours or OpenCV's fails."""
    least: dict[str, float] = {}
    results: dict[str, Any] = {}
    for turn in range(3):
        for library, worker in workers.items():
            if turn and library == "pymnn":  # whose calls are long
                continue
            save = turn == 0 and library != "pymnn"
            found = worker.ask(size=size, kind=kind, name=name, seconds=seconds, clock=clock, save=save)
            if "error" in found:
                if library != "pymnn":
                    print(f"{library}, {name}, {size} {kind}: {found['error']}", file=sys.stderr)
                    return None
                continue
            least[library] = min(least.get(library, float("inf")), found["ms"])
            if save:
                results[library] = np.load(found["file"])
    ours, theirs = (np.squeeze(results[library]).astype(np.float64) for library in ("ours", "opencv"))
    apart = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf")
    return Row(name, size, kind, threads, least["ours"], least["opencv"], least.get("pymnn"), apart)


def table(rows: list[Row]) -> str:
    """One line a case."""
    lines = [
        "| function | size | type, channels | threads | MNN.cv, ms | OpenCV, ms | PyMNN, ms | ratio | difference |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        official = "" if r.pymnn is None else f"{r.pymnn:.3f}"
        lines.append(
            f"| {r.name} | {r.size} | {r.kind} | {r.threads} | {r.ours:.3f} | {r.opencv:.3f} | {official} | "
            f"**{r.ratio:.2f}** | {r.apart:.2g} |"
        )
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """How often and by how much ours is faster, by number of threads."""
    lines = []
    for threads in sorted({r.threads for r in rows}):
        ratios = [r.ratio for r in rows if r.threads == threads]
        mean = statistics.geometric_mean(ratios)
        slow = sum(ratio < 0.5 for ratio in ratios)
        lines.append(
            f"- threads: {threads}; cases: {len(ratios)}; geometric mean of the ratios **{mean:.2f}**, lowest "
            f"{min(ratios):.2f}; below 0.5: {slow}."
        )
    return "\n".join(lines)


def page(rows: list[Row], versions: str) -> str:
    here = machine()
    return f"""# Pictures: MNN.cv beside OpenCV

Written by `python -m benchmarks.pictures --publish`.

{here["processor"]} ({", ".join(here["features"])}), at commit {here["commit"]}; {versions}.
Load average at the end {os.getloadavg()[0]:.1f} on {here["cores"]} cores: other programs make single numbers doubtful.

The minimum time of a call, of all three libraries in turns in one run, on noise. `ratio` is the faster one of OpenCV
and PyMNN over this package: above 1, this package is faster. Calls include what a Python program pays for them: on
small pictures the cheapest functions show the cost of a call (about 0.03 ms) rather than that of the work. Results are
left where the library has them (`np.asarray` of a `Var` copies it). PyMNN runs in one thread, and lacks some functions.
The difference is the largest one from OpenCV's results, in grey levels; hues are a circle, where 179 is beside 0.

`python -m benchmarks.pictures --further` measures some eighty other functions, beside OpenCV alone (Zen 3 without
AVX512, one thread, 640 by 480, with other programs running).

Of all 204 cases (`--clock processor`, bytes and floats of one and three channels) the geometric mean of the ratios is
1.03, and 10 are below 0.5, on a machine where seven others measured at the same time and a ratio differs by up to a
half from run to run (0.91 and 19 in a run of the version before, an hour earlier). Kernels are called with arrays
straight, without `ctypes`, and bytes are packed by instructions that saturate: `threshold`, borders, `flip`,
`getRectSubPix` and `bilateralFilter` of one channel of bytes, which were 0.29 to 0.48, are above 0.5 now. Below were
points, lines and polygons of few pixels (0.25 to 0.48), nearly all of which was the cost of a call; three floats merged
(0.36, 1.19 by itself); and nearest pixels of a float by `warpPerspective` (0.44), whose places are found in f64
here. Since then shapes and points are read by generated code. Of single calls in turns with OpenCV (Zen 1, with other
programs running) the ratios are 1.1 for a line, 1.25 for a rectangle, 1.1 for a circle, 1.4 for `fillPoly` and 1.5 for
`drawContours` of four corners (before: 0.10 to 0.15 there), and of 40 points 0.57 for `boundingRect`, 0.59 for
`contourArea`, 0.57 for `minAreaRect` and 0.37 for `convexHull` (0.30 before results of `int` were made at once), 0.36
for three planes of 16 by 16 floats in `merge` (0.28).

Drawing, regions, hulls, histograms and copies under a mask are generated kernels: of their 52 cases among these the
geometric mean is 1.01, and 8 are below 0.5. Lines with `LINE_AA` are not among the cases: they are drawn as samples,
and one across a picture takes up to a thousand times as long.

{summary(rows)}

{table(rows)}
"""


def main() -> None:
    options = _arguments()
    python = options.python or interpreter(work_folder(), "pictures")
    asked = "import cv2, importlib.metadata as m; print(f'OpenCV {cv2.__version__}, PyMNN {m.version(\"MNN\")}')"
    versions = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    rows: list[Row] = []
    for threads in options.threads:
        workers = {"ours": Worker(sys.executable, "ours", threads), "opencv": Worker(python, "opencv", threads)}
        if threads == 1 and not options.further:
            workers["pymnn"] = Worker(python, "pymnn", threads)
        for size in options.sizes:
            for kind in options.kinds:
                for name in names(kind, options.further):
                    row = measure(workers, size, kind, name, threads, options.seconds, options.clock)
                    if row is not None:
                        rows.append(row)
                        print(table([row]).splitlines()[-1], flush=True)
        for worker in workers.values():
            worker.end()
    print(summary(rows))
    if options.publish:
        PAGE.write_text(page(rows, versions), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="the interpreter that has opencv-python and MNN")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["480p"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["u8 1", "u8 3", "f32 1", "f32 3"])
    parser.add_argument("--seconds", type=float, default=0.03, help="for which a case is timed in each turn")
    clocks = "time on the wall, or of processors: for one thread on machines with neighbours"
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help=clocks)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--publish", action="store_true", help=f"write {PAGE.relative_to(REPOSITORY)}")
    which.add_argument("--further", action="store_true", help="measure other functions, beside OpenCV alone")
    return parser.parse_args()


if __name__ == "__main__":
    main()
