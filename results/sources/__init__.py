"""Where runs are read from: output folders, archives of them, and campaigns in one parquet file."""
