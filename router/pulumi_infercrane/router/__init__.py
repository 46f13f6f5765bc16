"""The data plane: an OpenAI-compatible streaming router that moves between revisions in one step."""
