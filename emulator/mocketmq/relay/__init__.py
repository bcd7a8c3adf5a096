"""The relay, which consumes delayed messages from a topic of a real broker and forwards them when due."""
