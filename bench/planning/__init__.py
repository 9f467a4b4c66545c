"""What is left to do, where it goes, and what it costs."""
