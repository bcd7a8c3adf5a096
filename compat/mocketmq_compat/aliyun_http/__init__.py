"""Aliyun's HTTP protocol: XML over ``/topics/{topic}/messages``, signed with keys (Aliyun sheet, 1)."""
