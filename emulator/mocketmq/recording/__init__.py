"""Recordings of messages: of a real cluster, or of a running mocketmq; and their replay on a moved clock."""
