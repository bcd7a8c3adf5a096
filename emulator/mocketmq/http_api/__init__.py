"""The JSON API over HTTP, which only translates requests; the broker makes all decisions."""
