"""Data sets: what each must offer, how published files are found, downloaded and prepared."""
