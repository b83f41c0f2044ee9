"""Programs whose numbers are integers of 8 and 16 bits: what follows exactly from fewer or narrower ones."""
