"""What every room may use: errors, files, locks, random numbers, texts. Nothing here knows what a run is."""
