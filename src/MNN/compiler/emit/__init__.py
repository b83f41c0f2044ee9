"""Kernels for groups of primitives, one file per kind of kernel."""

from __future__ import annotations
