"""Beta regression of an outcome between 0 and 1."""
