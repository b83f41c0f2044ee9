"""TensorFlow's operators, one file per family."""
