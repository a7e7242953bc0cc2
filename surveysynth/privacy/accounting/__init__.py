"""What releases have spent."""
