"""What tables, figures and the report are made from: the frame, cells, notes and findings."""
