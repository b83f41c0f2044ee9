"""The wire schema of .tflite files, as data: ``tables.json``, from the newest schema of LiteRT."""

from __future__ import annotations

from pathlib import Path

from MNN.schema.tables import Schema

TFLITE = Schema(Path(__file__).with_name("tables.json"), "TensorFlow Lite model", identifier=b"TFL3", open_unions=True)
"""Options of operators that are newer than the schema are read as absent: the operator itself is what is unknown."""
