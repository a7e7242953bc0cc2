"""The confidential survey file and its sampling design."""
