"""One run, from images to `result.json`."""
