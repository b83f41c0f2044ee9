"""The page that ``mnn bench --html`` writes: one file, nothing loaded from elsewhere."""

from __future__ import annotations

from MNN.cli.report.page import render, write_report

__all__ = ["render", "write_report"]
