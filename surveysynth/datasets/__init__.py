"""Example populations, real and simulated, and samples drawn from them."""

from .census import census_sample, census_workers
from .consumer_units import INCOMES, consumer_units
from .draw import draw_sample
from .sdr import sdr_population, sdr_sample

__all__ = [
    "INCOMES",
    "census_sample",
    "census_workers",
    "consumer_units",
    "draw_sample",
    "sdr_population",
    "sdr_sample",
]
