"""Reads the runs of output folders, archives and parquet files into checked records."""
