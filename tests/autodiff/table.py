"""The table of operators with checked gradients, in ``docs/gradients.md``.

python -m tests.autodiff.table        measures all cases and writes it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from MNN.errors import MNNError
from tests.autodiff.cases import FAMILIES, UNCHECKED, NoFloatsError, contrib_cases, onnx_cases, random_cases, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gradients.md"
BEGIN, END = "<!-- table: written by tests.autodiff.table -->", "<!-- end of table -->"
SEEDS = 30
SECONDS = 4


@dataclass
class Row:
    """An operator: cases, directions that counted, the largest errors of first and second derivatives (NaN: none)."""

    operator: str
    cases: int = 0
    directions: int = 0
    error: float = 0.0
    second: float = float("nan")
    slope: bool = False

    def line(self) -> str:
        second = "" if self.second != self.second else f"{self.second:.0e}"
        kind = f"{self.error:.0e}" if self.slope else "0 everywhere"
        return f"| {self.operator} | {self.cases} | {self.directions} | {kind} | {second} |"


def measure() -> list[Row]:
    rows: dict[str, Row] = {}
    cases = [made for listed in onnx_cases().values() for made in listed]
    cases += contrib_cases()
    cases += [made for family in FAMILIES for made in random_cases(family, SEEDS)]
    for made in cases:
        if made.operator in UNCHECKED:
            continue
        row = rows.setdefault(made.operator, Row(made.operator))
        try:
            found = run(made)
            if not found.counted:
                continue
            row.cases += 1
            row.directions += found.counted
            row.error = max(row.error, found.error)
            row.slope |= any(g.any() for g in found.gradients.values())
            if row.cases <= SECONDS:
                second = run(made, directions=2, second=True)
                if second.counted and not second.error <= row.second:
                    row.second = second.error
        except NoFloatsError:
            continue
        except MNNError as error:
            print(f"{made.operator}, {made.name}: {error}")
    return [rows[name] for name in sorted(rows) if rows[name].cases]


def read() -> list[Row]:
    """The rows of the page, of operators whose gradient is not zero everywhere."""
    lines = PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines()
    rows = []
    for line in lines:
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].isdigit() and cells[3] != "0 everywhere":
            rows.append(Row(cells[0], int(cells[1]), int(cells[2]), float(cells[3]), slope=True))
    return rows


def main() -> None:
    rows = measure()
    smooth = [r for r in rows if r.slope]
    head = [
        BEGIN,
        f"{len(smooth)} operators with a gradient, {sum(r.cases for r in smooth)} cases, "
        f"{sum(r.directions for r in smooth)} directions.",
        "",
        "| operator | cases | directions | error | second derivatives |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([*head, *(r.line() for r in rows), END]) + after)


if __name__ == "__main__":
    main()
