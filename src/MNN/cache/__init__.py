"""What is kept on disk between processes, in a folder that only its user can write."""
