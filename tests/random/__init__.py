"""Seeded random cases of single operators: parameters that nobody would combine by hand.

``families/`` draws them, one file a family; :mod:`tests.random.judges` says what is right, from ONNX Runtime and from
numpy; :mod:`tests.random.runner` runs this engine in every way that it has. ``python -m tests.random`` runs many.
"""
