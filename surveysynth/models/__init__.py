"""Models that synthesize outcomes and survey weights."""
