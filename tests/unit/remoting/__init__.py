"""Tests of the parts of the remoting protocol."""
