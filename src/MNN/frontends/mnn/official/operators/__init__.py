"""The official engine's form of each operator, in files by family as in ``ops/``."""
