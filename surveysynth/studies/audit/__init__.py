"""A test of the stated epsilon by membership attacks: an intruder tells from noisy tables whether a record is there."""
