"""Counters in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import threading
from collections import defaultdict

_HELP = {
    "mnn_requests_total": ("counter", "Requests that were answered, by path and status."),
    "mnn_prompt_tokens_total": ("counter", "Tokens of prompts."),
    "mnn_reused_tokens_total": ("counter", "Tokens of prompts that were in the caches already."),
    "mnn_generated_tokens_total": ("counter", "Tokens that were written."),
    "mnn_drafted_tokens_total": ("counter", "Tokens that were drafted, to be checked together."),
    "mnn_accepted_tokens_total": ("counter", "Drafted tokens that were those of the answer."),
    "mnn_cancelled_total": ("counter", "Answers that their clients did not wait for."),
    "mnn_prompt_seconds_total": ("counter", "Seconds of reading prompts."),
    "mnn_generate_seconds_total": ("counter", "Seconds of writing answers."),
    "mnn_first_token_seconds": ("histogram", "Seconds from a request to the first text of its answer."),
    "mnn_waiting": ("gauge", "Answers that wait for their turn."),
    "mnn_running": ("gauge", "Answers that are written now."),
    "mnn_cached_tokens": ("gauge", "Tokens of finished texts that others may begin with."),
    "mnn_preempted_total": ("counter", "How often an answer had to make room, and was read again."),
}
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Numbers that threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = defaultdict(float)
        self._observed: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(BUCKETS) + 2))

    def add(self, name: str, amount: float = 1, **labels: object) -> None:
        """Adds to a counter or gauge."""
        shown = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        with self._lock:
            self._values[name, shown] += amount

    def set(self, name: str, value: float) -> None:
        """What is counted elsewhere."""
        with self._lock:
            self._values[name, ""] = value

    def observe(self, name: str, value: float) -> None:
        """Enters a value into a histogram."""
        with self._lock:
            counts = self._observed[name]
            counts[next((i for i, bound in enumerate(BUCKETS) if value <= bound), len(BUCKETS))] += 1
            counts[-1] += value

    def value(self, name: str) -> float:
        """A counter's value, all labels together."""
        with self._lock:
            return sum(value for (key, _), value in self._values.items() if key == name)

    def text(self) -> str:
        """All of them, as Prometheus reads them."""
        lines = []
        with self._lock:
            for name, (kind, help_text) in _HELP.items():
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
                if kind == "histogram":
                    lines += self._histogram(name)
                    continue
                found = sorted((shown, value) for (key, shown), value in self._values.items() if key == name)
                for shown, value in found or [("", 0.0)]:
                    lines.append(f"{name}{{{shown}}} {value:g}" if shown else f"{name} {value:g}")
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        *counts, total = self._observed[name]
        lines, running = [], 0.0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
            running += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {running:g}')
        return [*lines, f"{name}_sum {total:g}", f"{name}_count {running:g}"]
