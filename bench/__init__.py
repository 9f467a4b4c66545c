"""The engine: space, training, evaluation, run folders, plans, launchers and the command line."""
