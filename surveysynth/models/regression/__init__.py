"""Sufficient statistics of weighted linear regression, and the regression of the survey weight."""
