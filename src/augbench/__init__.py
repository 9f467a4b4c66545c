"""Augbench compares learned data augmentations in one shared augmentation space."""

from pathlib import Path

__version__ = "0.1.0"

if not Path(__file__).with_name("bench").is_dir():  # a checkout without links: its folders are at its top
    __path__.append(str(Path(__file__).parents[2]))
