"""Functions on small things, most of whose time was Python's: generated code that CPython calls straight reads what
they are given, where that is as it mostly is, and runs the kernel."""
