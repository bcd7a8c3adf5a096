"""The suite's forty tests, a module for each kind; pytest runs them in a process with the official client."""
