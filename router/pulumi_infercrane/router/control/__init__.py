"""The control protocol: its server, its client, and how a change is applied while requests run."""
