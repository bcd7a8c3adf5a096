"""Exports traces and metrics over OTLP. Imported only if an endpoint is set; needs the extra ``otlp``."""
