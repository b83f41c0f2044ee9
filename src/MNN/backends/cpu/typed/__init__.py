"""Functions of generated code, written as typed Python: a small part of the language, translated to LLVM IR.

:func:`~MNN.backends.cpu.typed.language.typed` marks such a function; it is never run by Python, but read::

    @typed
    def known(numbers: Words, count: int, wanted: int) -> bool:
        for i in range(count):
            if numbers[i] == wanted:
                return True
        return False

    text = translated(known, "kernel")  # a module of LLVM IR that defines @kernel

Kernels are made by a builder (:mod:`MNN.backends.cpu.lang`), as their loops, tiles and vectors depend on a processor
and a shape. What is here has one form: code that reads CPython's objects, fills the arguments of kernels and calls
them.
"""
