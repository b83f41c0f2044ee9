"""ONNX-ML and what goes with it: classical models, text, sequences, optimisers."""
