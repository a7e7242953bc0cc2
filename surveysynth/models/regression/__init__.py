"""Weighted linear regression: the sums that it uses of the records, and the regression of the survey weight."""
