"""Pictures: filters, resampling, colours. Channels lie beside each other in memory, rows one after the other."""
