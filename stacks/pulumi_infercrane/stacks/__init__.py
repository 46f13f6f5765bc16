"""One environment at a time: configuration, the Pulumi program, durable operations, the command line."""
