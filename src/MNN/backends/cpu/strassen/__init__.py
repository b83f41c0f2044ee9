"""Large products by Strassen's algorithm."""
