"""Tables compiled for the request path: which revision and which replica answers, and the connections to it."""
