"""The JSON API over HTTP. It only translates requests; the broker makes all decisions."""
