"""Accounting of the epsilons of releases."""
