"""Augbench compares learned data augmentations in one shared augmentation space."""

__version__ = "0.1.0"
