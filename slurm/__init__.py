"""What a cluster user touches: profiles of clusters, and a real Slurm on one host to try things out."""
