"""Functions of mathematics beyond exponentials, composed of elementwise operators on f64 tensors."""
