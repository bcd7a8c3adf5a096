"""Export of traces and metrics by OTLP. Imported only if an endpoint is set, and needs the extra ``otlp``."""
