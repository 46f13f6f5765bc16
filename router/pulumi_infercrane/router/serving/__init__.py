"""The process: listeners, signals, workers, certificates, an orderly end."""
