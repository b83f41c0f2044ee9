"""Tests of emission, like those of the compiler, compute whole batches."""

from __future__ import annotations

from tests.compiler.conftest import whole_batches as whole_batches
