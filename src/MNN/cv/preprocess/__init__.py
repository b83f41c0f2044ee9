"""PyMNN's older way to prepare pictures for a model: a matrix, and a process that samples, converts and scales."""
