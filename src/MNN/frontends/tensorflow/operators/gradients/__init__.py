"""Derivatives that a graph computes by itself: ``tf.GradientTape`` in a function that is exported."""
