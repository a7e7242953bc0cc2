"""Weighted linear regression: sufficient statistics, and the regression of the survey weight."""
