"""Aliyun's HTTP protocol: signed XML at ``/topics/{topic}/messages`` (docs/protocol/aliyun.md §1)."""
