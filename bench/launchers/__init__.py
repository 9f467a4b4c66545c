"""One file for each way of placing runs on machines."""
