"""What is remembered between processes: programs, measurements, choices."""
