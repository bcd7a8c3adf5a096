"""Tests of the parts of the gRPC proxy."""
