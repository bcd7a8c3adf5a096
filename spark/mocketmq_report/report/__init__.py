"""The report written down: HTML, Markdown, JUnit, and the terminal's table."""
