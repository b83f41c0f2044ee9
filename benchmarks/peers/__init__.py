"""Engines that ``benchmarks.compare`` measures, each behind the same small interface in a process of its own.

``catalog`` lists them and their pinned versions; ``worker`` is the process; ``<engine>.py`` holds one class ``Engine``
(see ``interface``); ``convert`` brings models into their formats.
"""
