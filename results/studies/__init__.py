"""Studies that load data or run networks: probes, the bound of a run, the toy problem."""
