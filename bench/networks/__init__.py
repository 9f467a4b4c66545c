"""One file for each network or family of networks."""
