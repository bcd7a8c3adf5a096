"""The recipes of docs/recipes."""
