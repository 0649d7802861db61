"""The HTTP surface: the provider endpoint, and the proxy that records."""
