"""A real Slurm on one host, for tests and for trying things out: several nodes, all on 127.0.0.1."""
