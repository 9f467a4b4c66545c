"""From files to records: output folders, archives of them, and campaigns in one parquet file."""
