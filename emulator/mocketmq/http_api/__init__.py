"""The JSON API over HTTP. This package only translates requests; the broker makes all decisions."""
