"""``python -m tests.random [--family NAME ...] [--cases N] [--first SEED] [--seed SEED]``: runs cases, prints counts.

``--seed`` runs one case and prints it. ``--cases`` are shared by the chosen families. Fails when any case fails.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.random.runner import Tally, case, check, family_names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random", description=__doc__)
    parser.add_argument("--family", action="append", choices=family_names())
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--failures", type=int, default=50, help="how many failures are printed")
    options = parser.parse_args()
    chosen = options.family or family_names()
    if options.seed is not None:
        print(case(chosen[0], options.seed))
        tally = check(chosen[0], options.seed)
        print("\n".join(tally.failures) or f"agrees: {', '.join(tally.compared)} with {', '.join(tally.asked)}")
        return 1 if tally.failures else 0
    total, shown = Tally(), 0
    for i, family in enumerate(chosen):
        began, tally = time.perf_counter(), Tally()
        count = options.cases // len(chosen) + (i < options.cases % len(chosen))
        for seed in range(options.first, options.first + count):
            found = check(family, seed)
            tally.add(found)
            for failure in found.failures[: max(options.failures - shown, 0)]:
                print(failure, flush=True)
                shown += 1
        print(f"{family}: {tally.cases} cases, {len(tally.failures)} failures, {time.perf_counter() - began:.0f} s",
              flush=True)  # fmt: skip
        total.add(tally)
    print(f"{total.cases} cases; ways compared {total.compared}; judges asked {total.asked}")
    for excuse, count in sorted(total.excuses.items()):
        print(f"    {count} without ONNX Runtime: {excuse}")
    print(f"{len(total.failures)} failures")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
