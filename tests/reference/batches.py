"""Moments of Markov chain draws with their Monte Carlo errors."""

import numpy as np


def moments(draws, batch=100):
    """Means and standard deviations of draws (chains, draws, P), and their Monte Carlo errors by batch means."""
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    squares = (draws - mean) ** 2 / (2 * sd)  # the standard deviation moves with half the variance over itself
    error = [
        x.reshape(-1, batch, x.shape[2]).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(x.shape[0] * x.shape[1] / batch)
        for x in (draws, squares)
    ]
    return np.array([mean, sd]), np.array(error)
