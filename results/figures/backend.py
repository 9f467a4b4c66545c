"""Imports matplotlib whatever the user's settings and folders are.

This package imports it first of all, and the report, which needs matplotlib too, imports this package before that.
"""

import contextlib
import logging
import os
import sys


def _import_matplotlib() -> None:
    """Import matplotlib where MPLBACKEND names a backend that is not installed, or HOME cannot be written to.

    The shell of a notebook hands its MPLBACKEND on, with which matplotlib cannot be imported elsewhere. Our figures
    need no backend; one that exists stays chosen for the user's own plots. Without a place for its caches, matplotlib
    warns and uses a temporary folder each time, which is all that can be done here.
    """
    log = logging.getLogger("matplotlib")
    level, backend = log.level, os.environ.pop("MPLBACKEND", None)
    log.setLevel(logging.ERROR)
    try:
        import matplotlib.font_manager  # looks for a folder for the cache of fonts

        if backend:
            with contextlib.suppress(ValueError):
                matplotlib.rcParams["backend"] = backend
    finally:
        log.setLevel(level)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


if "matplotlib" not in sys.modules:
    _import_matplotlib()
