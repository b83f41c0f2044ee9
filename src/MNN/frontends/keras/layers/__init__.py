"""Layers of Keras by family, each written as the operators that it runs in TensorFlow."""
