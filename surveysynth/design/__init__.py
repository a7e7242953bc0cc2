"""The confidential survey file, seen through its design."""
