"""What measurements are judged by."""
