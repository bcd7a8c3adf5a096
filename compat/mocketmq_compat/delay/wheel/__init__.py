"""The scheme ``wheel``: a file per ten minutes of due time, loaded ahead into a timing wheel in memory."""
