"""Records the requests to a broker and its answers, and replays the requests on another broker."""
