"""Models of counts."""
