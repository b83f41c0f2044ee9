"""The programs in ``examples/`` and its notebooks, run as users run them."""
