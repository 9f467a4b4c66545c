"""Finding methods, data sets, networks and launchers, in the project, installed packages and plug-in files."""
