"""How much faster answers are written with drafts, on text that repeats and on text that does not.

    python -m benchmarks.drafts MODEL [--draft lookup] [--threads 1] [--runs 3] [--tokens 200]

Greedy answers with a draft and without, in turns; seconds are the process's own (CPU time), the fastest run counts,
and answers are compared. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from MNN.cli.language.options import drafter
from MNN.llm import LanguageModel, load
from MNN.llm.speculation import Drafter

TEXT = (
    "The river rises in the hills north of the town and flows for about ninety kilometres before it reaches the sea. "
    "In spring, when the snow melts, the water is brown and quick; by August it is shallow enough to wade. Mills were "
    "built along it from the twelfth century on, first to grind corn and later to full cloth, and the ruins of several "
    "can still be seen between the two bridges."
)
CODE = '''def area(width, height):
    """The area of a rectangle."""
    return width * height


def volume(width, height, depth):
    """The volume of a box."""
    return area(width, height) * depth


def surface(width, height, depth):
    """The surface of a box."""
    return 2 * (area(width, height) + area(width, depth) + area(height, depth))
'''
TASKS = {
    "a text word for word": f"Repeat the following text word for word:\n\n{TEXT}",
    "code, a name changed": "Rename the parameter depth to length in this Python code and give the whole code again:"
    f"\n\n```python\n{CODE}```",
    "a story": "Tell me a story about a fox.",
}


def seconds(llm: LanguageModel, question: str, most: int, draft: Drafter | None) -> tuple[float, list[int], int, int]:
    """CPU seconds behind the first token, the tokens, and how many were drafted and kept."""
    llm.reset()
    answer = llm.stream(question, most, draft=draft)
    pieces = iter(answer)
    next(pieces, None)
    begin = time.process_time()
    for _ in pieces:
        pass
    return time.process_time() - begin, answer.tokens, answer.cost.drafted, answer.cost.kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", default="lookup")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=200)
    given = parser.parse_args()
    llm = load(given.model, given.threads)
    draft = drafter(given.draft, llm, given.model, given.threads, "normal")
    print("| task | tokens | drafted | taken | tokens/s | with drafts | |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, question in TASKS.items():
        best = [float("inf")] * 2
        for run in range(given.runs + 1):  # the first one makes plans
            plain, wanted, _, _ = seconds(llm, question, given.tokens, None)
            fast, found, drafted, kept = seconds(llm, question, given.tokens, draft)
            if found != wanted:
                raise SystemExit(f"{name}: the answer is another one with drafts")
            if run:
                best = [min(best[0], plain), min(best[1], fast)]
        rates = [(len(wanted) - 1) / s for s in best]
        print(
            f"| {name} | {len(wanted)} | {drafted} | {kept} | {rates[0]:.0f} | {rates[1]:.0f} | "
            f"{rates[1] / rates[0]:.2f}x |",
            flush=True,
        )


if __name__ == "__main__":
    main()
