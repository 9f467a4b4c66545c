"""The command line, one file for each group of commands. The only place that prints."""
