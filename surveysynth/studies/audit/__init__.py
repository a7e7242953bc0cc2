"""A test of the stated epsilon by attacks: an intruder tells from noisy tables whether a record is in the file."""
