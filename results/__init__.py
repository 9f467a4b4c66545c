"""From run folders to frames, tables, figures and findings in words."""
