"""One file for each network."""
