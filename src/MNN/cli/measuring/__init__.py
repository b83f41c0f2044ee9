"""Parts of ``mnn bench``."""
