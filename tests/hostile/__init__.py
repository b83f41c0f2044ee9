"""What malformed and malicious model files, and careless use, may not do to the process."""
