"""A run on the disk: its folder, its owner and its state. Nothing here imports torch."""
