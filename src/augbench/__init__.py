"""Augbench compares learned data augmentations in one shared augmentation space."""

import os  # which Python itself has loaded; pathlib would take its time

__version__ = "0.1.0"

if not os.path.isdir(f"{__path__[0]}/bench"):  # noqa: PTH112 - a checkout without links: its folders are at its top
    __path__.append(os.path.dirname(os.path.dirname(__path__[0])))  # noqa: PTH120
