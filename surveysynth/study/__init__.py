"""Studies: what the private tables are worth, over repeated samples of a known population or on one's own file."""

from .repeated import Population, Study, repeated_sampling, sdr

__all__ = ["Population", "Study", "repeated_sampling", "sdr"]
