"""The report: one HTML page that holds everything, to be opened from a file, mailed or archived."""

from augbench.results.report.page import TITLE, check_page, report_page, write_report

__all__ = ["TITLE", "check_page", "report_page", "write_report"]
