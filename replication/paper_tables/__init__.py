"""Numbers that the papers print, to compare with."""
