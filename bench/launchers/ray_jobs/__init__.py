"""What runs on a Ray cluster: its head, and the trials that execute runs."""
