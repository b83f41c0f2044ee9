"""Gradients: one vector-Jacobian rule for each primitive, as primitives again.

An operator has no gradient of its own. It is lowered to primitives, and :func:`MNN.autodiff.backward.gradients` walks
these back from a result, asking the rule of each (Griewank and Walther, "Evaluating Derivatives", 2008: reverse mode).
What rules give are primitives, so that they are fused, planned and compiled like all others, and have gradients
themselves. :mod:`MNN.autodiff.operator` is the operator ``Gradient`` of graphs.
"""
