"""Records messages of a real cluster or of a running mocketmq, and replays them on a clock that it moves."""
