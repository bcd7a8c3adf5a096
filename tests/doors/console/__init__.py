"""The console, in a real Chromium."""
