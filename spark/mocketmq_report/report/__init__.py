"""Writes a report: as HTML, JSON, Markdown, JUnit XML, and as a table in the terminal."""
