"""Tables and figures for publication, and machine-readable metadata."""
