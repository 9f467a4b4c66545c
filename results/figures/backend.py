"""Imports matplotlib whatever the user's settings and folders are; this package imports it before anything else."""

import contextlib
import logging
import os
import sys


def _import_matplotlib() -> None:
    """Import matplotlib where MPLBACKEND names a backend that is not installed, or HOME cannot be written to.

    The shell of a notebook passes on its MPLBACKEND, which breaks the import of matplotlib elsewhere. Our figures need
    no backend; an installed one stays chosen for the user's own plots. Where matplotlib finds no folder for its caches,
    it would warn and use a temporary one each time.
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
