"""Tests of the remoting door's parts."""
