"""What the launcher `slurm` is made of: arrays, checks, what a job does, and what Slurm says of jobs."""
