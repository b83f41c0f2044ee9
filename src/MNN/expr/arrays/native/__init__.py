"""Functions of few numbers as generated code that Python calls straight: no frame of the interpreter, no ``ctypes``,
and numpy's own inner loops on numpy's own arrays, so that the numbers are the same bit by bit."""
